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

static AttentionCall attention_call(const LayerRows *rows, const LayerSpan *span) {
    const Hparams *hparams = rows->hparams;

    return (AttentionCall){
        .q = rows->slots[SLOT_Q] + span->first * layer_slot_width(hparams, SLOT_Q),
        .k = rows->slots[SLOT_K] + span->first * layer_slot_width(hparams, SLOT_K),
        .v = rows->slots[SLOT_V] + span->first * layer_slot_width(hparams, SLOT_V),
        .blocks = span->blocks,
        .k_offset_bytes = span->k_offset_bytes,
        .v_offset_bytes = span->v_offset_bytes,
        .position = span->position,
        .rows = span->rows,
        .n_heads = hparams->n_heads,
        .n_kv_heads = hparams->n_kv_heads,
        .head_size = hparams->head_size,
        .window = hparams_layer_is_local(hparams, rows->layer) ? hparams->window : 0,
        .scale = hparams->attention_scale,
    };
}

typedef void AttentionFn(Backend *backend, const AttentionCall *calls, size_t n_calls);

static void for_spans(const LayerRows *rows, AttentionFn *fn) {
    AttentionCall calls[ATTENTION_CALLS_MAX];

    for (size_t first = 0, n; first < rows->n_spans; first += n) {
        for (n = 0; n < ATTENTION_CALLS_MAX && first + n < rows->n_spans; n++)
            calls[n] = attention_call(rows, &rows->spans[first + n]);
        fn(rows->backend, calls, n);
    }
}

static void run_attention(const LayerRows *rows) {
    for_spans(rows, rows->backend->ops->kv_store);
    if (rows->stored)
        rows->stored(rows->stored_arg);
    for_spans(rows, rows->backend->ops->attention);
}

static int run_linear(const LayerRows *rows, const ArchOp *op, const LinearInput *in, BackendLinear *const *linears,
                      ErrText *err) {
    const BackendLinear *products[OP_WEIGHTS_MAX];
    float *out[OP_WEIGHTS_MAX];

    for (size_t i = 0; i < op->n; i++) {
        products[i] = linears[op->w[i]];
        out[i] = rows->slots[op->out[i]];
    }
    return rows->backend->ops->linear(rows->backend, products, op->n, in, rows->rows, out, err);
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
    float *in = rows->slots[op->in];
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
        return run_linear(rows, op, &(LinearInput){ .x = in }, linears, err);
    case OP_ROPE:
        ops->rope(rows->backend, in, rows->rope->cos, rows->rope->sin, rows->rows, width / hparams->head_size,
                  hparams->head_size, hparams->n_rot, hparams->arch->rope == ROPE_NEOX);
        break;
    case OP_ATTENTION:
        run_attention(rows);
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

/* --- operators that run as one ------------------------------------------------------------------------------------ */

static bool reads(const ArchOp *op, Slot slot) {
    return op->in == slot || (op->kind == OP_ATTENTION && (slot == SLOT_K || slot == SLOT_V)) ||
           (op->kind == OP_GATED && slot == SLOT_UP) || (op->kind == OP_ADD && slot == SLOT_X);
}

static bool writes(const ArchOp *op, Slot slot) {
    for (size_t i = 0; i < op->n; i++)
        if (op->out[i] == slot)
            return true;
    return !op->n && op->out[0] == slot;
}

/* Whether the output of the operator at `at` goes into the product behind it and nowhere else. */
static bool feeds_product_alone(const Arch *arch, size_t at) {
    const Slot slot = arch->ops[at].out[0];

    if (at + 1 == arch->n_ops || arch->ops[at + 1].kind != OP_LINEAR || arch->ops[at + 1].in != slot)
        return false;
    for (size_t i = at + 1; i < arch->n_ops; i++) {
        if (i > at + 1 && reads(&arch->ops[i], slot))
            return false;
        if (writes(&arch->ops[i], slot))
            return true;
    }
    return slot != SLOT_X; /* which the next layer reads */
}

/* How the product behind `at` takes in what the operators from there on make of its input; how many run as one. */
static size_t fused_input(const LayerRows *rows, size_t at, float *const *vectors, LinearInput *in) {
    const Hparams *hparams = rows->hparams;
    const ArchOp *op = &hparams->arch->ops[at];

    in->x = rows->slots[op->in];
    if (op->kind == OP_ADD && at + 1 < hparams->arch->n_ops && op[1].kind == OP_NORM && op[1].in == SLOT_X) {
        in->stream = rows->slots[SLOT_X];
        op++;
        at++;
    }
    if ((op->kind != OP_NORM && op->kind != OP_GATED) || !feeds_product_alone(hparams->arch, at))
        return 1;
    if (op->kind == OP_NORM) {
        in->norm = vectors[op->w[0]];
        in->eps = hparams->norm_eps;
    } else {
        in->up = rows->slots[SLOT_UP];
        in->gelu = hparams->arch->activation == ACTIVATION_GELU;
    }
    return in->stream ? 3 : 2;
}

/**
 * layer_run_ops() - the operator at `at` of the table, and the ones behind it that run with it as one
 * @n_ranp: how many that were
 *
 * A norm or a gate whose output only a product reads becomes a part of that product's input, where the device can, and
 * so does what is added to the stream just before the norm: rows go to int8 without a way through memory. The slot
 * between them is not written. Same bits. Otherwise as layer_run_op().
 */
int layer_run_ops(const LayerRows *rows, size_t at, BackendLinear *const *linears, float *const *vectors,
                  size_t *n_ranp, ErrText *err) {
    const ArchOp *op = &rows->hparams->arch->ops[at];
    LinearInput in = { 0 };

    *n_ranp = rows->backend->ops->fuses ? fused_input(rows, at, vectors, &in) : 1;
    if (*n_ranp == 1)
        return layer_run_op(rows, op, linears, vectors, err);
    return run_linear(rows, op + *n_ranp - 1, &in, linears, err);
}
