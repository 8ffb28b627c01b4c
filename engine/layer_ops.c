#include "engine/layer_ops.h"

#include "backends/cpu/rope_table.h"

size_t layer_slot_width(const Hparams *hparams, Slot slot) {
    return hparams_dim(hparams, slot_dim(slot));
}

void rope_rows_prepare(const RopeRows *rope, const Hparams *hparams, bool local, const float *divisors) {
    RopeParams params = {
        .base = local ? hparams->rope_base_local : hparams->rope_base,
        .position_scale = local ? 1 : hparams->rope_position_scale,
        .divisors = local ? NULL : divisors,
        .n_rot = hparams->n_rot,
    };

    rope_frequencies(&params, rope->freqs);
}

void rope_rows_fill(const RopeRows *rope, size_t half, size_t first, size_t position, size_t rows) {
    for (size_t r = 0; r < rows; r++)
        rope_row(rope->freqs, half, position + r, rope->cos + (first + r) * half, rope->sin + (first + r) * half);
}

static void run_attention(const LayerRows *rows, const LayerSpan *span) {
    const Hparams *hparams = rows->hparams;
    AttentionCall call = {
        .q = rows->slots[SLOT_Q] + span->first * layer_slot_width(hparams, SLOT_Q),
        .k = rows->slots[SLOT_K] + span->first * layer_slot_width(hparams, SLOT_K),
        .v = rows->slots[SLOT_V] + span->first * layer_slot_width(hparams, SLOT_V),
        .k_cache = span->k_cache,
        .v_cache = span->v_cache,
        .position = span->position,
        .rows = span->rows,
        .n_heads = hparams->n_heads,
        .n_kv_heads = hparams->n_kv_heads,
        .head_size = hparams->head_size,
        .window = hparams_layer_is_local(hparams, rows->layer) ? hparams->window : 0,
        .scale = hparams->attention_scale,
    };

    rows->backend->ops->attention(rows->backend, &call);
}

/**
 * layer_run_op() - one operator of the architecture's table on rows
 * @rows:    slots are read and written as the operator says; the KV caches are written by OP_ATTENTION
 * @linears: by role; those of the operator must be there
 * @vectors: f32, by role, likewise
 *
 * Thread: the one that computes. Allocates nothing.
 * Return: 0; BACKEND_E_READ or -errno when weights that are read on demand could not be.
 */
int layer_run_op(const LayerRows *rows, const ArchOp *op, BackendLinear *const *linears, float *const *vectors,
                 ErrText *err) {
    const Hparams *hparams = rows->hparams;
    const BackendOps *ops = rows->backend->ops;
    const BackendLinear *products[OP_WEIGHTS_MAX];
    float *in = rows->slots[op->in], *out[OP_WEIGHTS_MAX];
    size_t width = layer_slot_width(hparams, op->in);

    switch (op->kind) {
    case OP_NORM:
        ops->norm(rows->backend, in, vectors[op->w[0]], hparams->norm_eps, rows->rows, width, rows->slots[op->out[0]]);
        break;
    case OP_HEAD_NORM:
        ops->norm(rows->backend, in, vectors[op->w[0]], hparams->norm_eps, rows->rows * (width / hparams->head_size),
                  hparams->head_size, in);
        break;
    case OP_LINEAR:
        for (size_t i = 0; i < op->n; i++) {
            products[i] = linears[op->w[i]];
            out[i] = rows->slots[op->out[i]];
        }
        return ops->linear(rows->backend, products, op->n, in, rows->rows, out, err);
    case OP_ROPE:
        ops->rope(rows->backend, in, rows->rope->cos, rows->rope->sin, rows->rows, width / hparams->head_size,
                  hparams->head_size, hparams->n_rot, hparams->arch->rope == ROPE_NEOX);
        break;
    case OP_ATTENTION:
        for (size_t i = 0; i < rows->n_spans; i++)
            run_attention(rows, &rows->spans[i]);
        break;
    case OP_GATED:
        ops->gated(rows->backend, in, rows->slots[SLOT_UP], rows->rows, width,
                   hparams->arch->activation == ACTIVATION_GELU);
        break;
    case OP_ADD:
        ops->add(rows->backend, rows->slots[SLOT_X], in, rows->rows, width);
        break;
    }
    return 0;
}
