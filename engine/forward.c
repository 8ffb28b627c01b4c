/* The forward pass: walks the architecture's table of operators for the rows of one step. It knows no device. */
#include <errno.h>
#include <string.h>

#include "engine/engine_private.h"

static uint8_t *kv_of(const Sequence *sequence, uint32_t layer, bool values) {
    const Engine *engine = sequence->engine;
    size_t plane_bytes =
        sequence->kv_capacity * hparams_dim(&engine->hparams, DIM_KV) * engine->backend->ops->kv_element_bytes;

    return (uint8_t *)sequence->kv.data + (2 * (size_t)layer + values) * plane_bytes;
}

/**
 * engine_forward() - append n tokens to a sequence and compute them
 * @tokens:       ids below n_vocab; n is 1..chunk
 * @n_logit_rows: 0..n: the last rows whose logits are wanted
 * @logits:       out, f32[n_logit_rows][n_vocab]
 *
 * Keys and values of the step are written past n_tokens, which moves only at the end: a cancelled step leaves the
 * sequence as it was, and so does one whose weights could not be read. Thread: the one that computes.
 * Return: 0, ENGINE_E_CONTEXT, ENGINE_E_CANCELLED; ENGINE_E_READ, with a text that names package and tensor; -EINVAL.
 */
int engine_forward(Engine *engine, Sequence *sequence, const uint32_t *tokens, size_t n, size_t n_logit_rows,
                   float *logits, ErrText *err) {
    const Hparams *hparams = &engine->hparams;
    const BackendOps *ops = engine->backend->ops;
    const BackendLinear *head = weights_head(engine->weights);
    LayerRows rows = { .hparams = hparams, .backend = engine->backend, .rows = n, .position = sequence->n_tokens };
    float *last;
    int r;

    if (!n || n > engine->chunk_tokens || n_logit_rows > n)
        return -EINVAL;
    if (n > sequence->capacity_tokens - sequence->n_tokens)
        return ENGINE_E_CONTEXT;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= hparams->n_vocab)
            return -EINVAL;

    rope_rows_fill(&engine->rope, hparams->n_rot / 2, sequence->n_tokens, n);
    if (hparams->window)
        rope_rows_fill(&engine->rope_local, hparams->n_rot / 2, sequence->n_tokens, n);
    memcpy(rows.slots, engine->slots, sizeof(rows.slots));
    ops->embed(engine->backend, engine->weights->outside.linears[ROLE_TOKEN_EMBD], tokens, n, hparams->embedding_scale,
               engine->slots[SLOT_X]);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++) {
        const WeightsLayer *weights = &engine->weights->layers[layer];

        rows.layer = layer;
        rows.rope = hparams_layer_is_local(hparams, layer) ? &engine->rope_local : &engine->rope;
        rows.k_cache = kv_of(sequence, layer, false);
        rows.v_cache = kv_of(sequence, layer, true);
        for (size_t i = 0; i < hparams->arch->n_ops; i++) {
            if (sequence->cancelled && atomic_load_explicit(sequence->cancelled, memory_order_relaxed))
                return ENGINE_E_CANCELLED;
            r = layer_run_op(&rows, &hparams->arch->ops[i], weights->linears, weights->vectors, err);
            if (r)
                return r < 0 ? r : ENGINE_E_READ;
            if (engine->heartbeat)
                atomic_fetch_add_explicit(engine->heartbeat, 1, memory_order_relaxed);
        }
    }
    if (n_logit_rows) {
        last = engine->slots[SLOT_X] + (n - n_logit_rows) * hparams->n_embd;
        ops->norm(engine->backend, last, engine->weights->outside.vectors[ROLE_OUTPUT_NORM], hparams->norm_eps,
                  n_logit_rows, hparams->n_embd, engine->slots[SLOT_NORM]);
        r = ops->linear(engine->backend, &head, 1, engine->slots[SLOT_NORM], n_logit_rows, &logits, err);
        if (r)
            return r < 0 ? r : ENGINE_E_READ;
    }
    sequence->n_tokens += n;
    return 0;
}
