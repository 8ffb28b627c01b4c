/* The forward pass: walks the architecture's table of operators for the rows of one step. It knows no device. */
#include <errno.h>
#include <string.h>

#include "backends/cpu/rope_table.h"
#include "engine/engine_private.h"

static size_t slot_width(const Engine *engine, Slot slot) {
    return hparams_dim(&engine->hparams, slot_dim(slot));
}

static uint8_t *kv_of(const Sequence *sequence, uint32_t layer, bool values) {
    const Engine *engine = sequence->engine;
    size_t plane_bytes =
        sequence->capacity_tokens * hparams_dim(&engine->hparams, DIM_KV) * engine->backend->ops->kv_element_bytes;

    return (uint8_t *)sequence->kv.data + (2 * (size_t)layer + values) * plane_bytes;
}

static void fill_rope(const RopeRows *rope, size_t half, size_t position, size_t rows) {
    for (size_t r = 0; r < rows; r++)
        rope_row(rope->freqs, half, position + r, rope->cos + r * half, rope->sin + r * half);
}

static void run_op(Engine *engine, Sequence *sequence, const ArchOp *op, uint32_t layer, size_t rows) {
    const Hparams *hparams = &engine->hparams;
    const WeightsLayer *weights = &engine->weights->layers[layer];
    const BackendOps *ops = engine->backend->ops;
    const BackendLinear *linears[OP_WEIGHTS_MAX];
    float *in = engine->slots[op->in], *out[OP_WEIGHTS_MAX];
    size_t width = slot_width(engine, op->in);
    bool local = hparams_layer_is_local(hparams, layer);
    const RopeRows *rope = local ? &engine->rope_local : &engine->rope;

    switch (op->kind) {
    case OP_NORM:
        ops->norm(engine->backend, in, weights->vectors[op->w[0]], hparams->norm_eps, rows, width,
                  engine->slots[op->out[0]]);
        break;
    case OP_HEAD_NORM:
        ops->norm(engine->backend, in, weights->vectors[op->w[0]], hparams->norm_eps,
                  rows * (width / hparams->head_size), hparams->head_size, in);
        break;
    case OP_LINEAR:
        for (size_t i = 0; i < op->n; i++) {
            linears[i] = weights->linears[op->w[i]];
            out[i] = engine->slots[op->out[i]];
        }
        ops->linear(engine->backend, linears, op->n, in, rows, out);
        break;
    case OP_ROPE:
        ops->rope(engine->backend, in, rope->cos, rope->sin, rows, width / hparams->head_size, hparams->head_size,
                  hparams->n_rot, hparams->arch->rope == ROPE_NEOX);
        break;
    case OP_ATTENTION: {
        AttentionCall call = {
            .q = engine->slots[SLOT_Q],
            .k = engine->slots[SLOT_K],
            .v = engine->slots[SLOT_V],
            .k_cache = kv_of(sequence, layer, false),
            .v_cache = kv_of(sequence, layer, true),
            .position = sequence->n_tokens,
            .rows = rows,
            .n_heads = hparams->n_heads,
            .n_kv_heads = hparams->n_kv_heads,
            .head_size = hparams->head_size,
            .window = local ? hparams->window : 0,
            .scale = hparams->attention_scale,
        };

        ops->attention(engine->backend, &call);
        break;
    }
    case OP_GATED:
        ops->gated(engine->backend, in, engine->slots[SLOT_UP], rows, width,
                   hparams->arch->activation == ACTIVATION_GELU);
        break;
    case OP_ADD:
        ops->add(engine->backend, engine->slots[SLOT_X], in, rows, width);
        break;
    }
}

/**
 * engine_forward() - append n tokens to a sequence and compute them
 * @tokens:       ids below n_vocab; n is 1..chunk
 * @n_logit_rows: 0..n: the last rows whose logits are wanted
 * @logits:       out, f32[n_logit_rows][n_vocab]
 *
 * Keys and values of the step are written past n_tokens, which moves only at the end: a cancelled step leaves the
 * sequence as it was. Thread: the one that computes.
 * Return: 0, ENGINE_E_CONTEXT, ENGINE_E_CANCELLED, -EINVAL.
 */
int engine_forward(Engine *engine, Sequence *sequence, const uint32_t *tokens, size_t n, size_t n_logit_rows,
                   float *logits) {
    const Hparams *hparams = &engine->hparams;
    const BackendOps *ops = engine->backend->ops;
    const BackendLinear *head = weights_head(engine->weights);
    float *last;

    if (!n || n > engine->chunk_tokens || n_logit_rows > n)
        return -EINVAL;
    if (n > sequence->capacity_tokens - sequence->n_tokens)
        return ENGINE_E_CONTEXT;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= hparams->n_vocab)
            return -EINVAL;

    fill_rope(&engine->rope, hparams->n_rot / 2, sequence->n_tokens, n);
    if (hparams->window)
        fill_rope(&engine->rope_local, hparams->n_rot / 2, sequence->n_tokens, n);
    ops->embed(engine->backend, engine->weights->outside.linears[ROLE_TOKEN_EMBD], tokens, n, hparams->embedding_scale,
               engine->slots[SLOT_X]);
    for (uint32_t layer = 0; layer < hparams->n_layers; layer++)
        for (size_t i = 0; i < hparams->arch->n_ops; i++) {
            if (sequence->cancelled && atomic_load_explicit(sequence->cancelled, memory_order_relaxed))
                return ENGINE_E_CANCELLED;
            run_op(engine, sequence, &hparams->arch->ops[i], layer, n);
            if (engine->heartbeat)
                atomic_fetch_add_explicit(engine->heartbeat, 1, memory_order_relaxed);
        }
    if (n_logit_rows) {
        last = engine->slots[SLOT_X] + (n - n_logit_rows) * hparams->n_embd;
        ops->norm(engine->backend, last, engine->weights->outside.vectors[ROLE_OUTPUT_NORM], hparams->norm_eps,
                  n_logit_rows, hparams->n_embd, engine->slots[SLOT_NORM]);
        ops->linear(engine->backend, &head, 1, engine->slots[SLOT_NORM], n_logit_rows, &logits);
    }
    sequence->n_tokens += n;
    return 0;
}
