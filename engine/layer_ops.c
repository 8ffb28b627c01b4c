// SPDX-License-Identifier: Apache-2.0
#include "engine/layer_ops.h"

size_t layer_slot_width(const Hparams *hparams, Slot slot) {
    return hparams_dim(hparams, slot_dim(slot));
}

/* Of a norm; NULL: it has none, and is of squares. */
static const float *norm_bias(const Hparams *hparams, float *const *vectors, TensorRole role) {
    return hparams->arch->norm == NORM_LAYER ? vectors[tensor_role_bias(role)] : NULL;
}

void layer_norm_rows(Backend *backend, const Hparams *hparams, float *const *vectors, TensorRole role, const float *x,
                     size_t rows, size_t n, float *y) {
    const float *bias = norm_bias(hparams, vectors, role);

    if (bias)
        backend->ops->layer_norm(backend, x, vectors[role], bias, hparams->norm_eps, rows, n, y);
    else
        backend->ops->norm(backend, x, vectors[role], hparams->norm_eps, rows, n, y);
}

static void run_attention(const LayerRows *rows) {
    const Hparams *hparams = rows->hparams;
    const AttentionCall call = {
        .batch = rows->batch,
        .first = rows->first,
        .rows = rows->rows,
        .q = rows->slots[SLOT_Q],
        .k = rows->slots[SLOT_K],
        .v = rows->slots[SLOT_V],
        .k_offset_bytes = rows->k_offset_bytes,
        .v_offset_bytes = rows->v_offset_bytes,
        .n_heads = hparams->n_heads,
        .n_kv_heads = hparams->n_kv_heads,
        .head_size = hparams->head_size,
        .window = hparams_layer_is_local(hparams, rows->layer) ? hparams->window : 0,
        .scale = hparams->attention_scale,
        .soft_cap = hparams->attention_cap,
    };

    rows->backend->ops->kv_store(rows->backend, &call);
    if (rows->stored)
        rows->stored(rows->stored_arg);
    rows->backend->ops->attention(rows->backend, &call);
}

static int run_linear(const LayerRows *rows, const ArchOp *op, const LinearInput *in, LinearGate gate,
                      BackendLinear *const *linears, ErrText *err) {
    const BackendLinear *products[OP_WEIGHTS_MAX];
    float *out[OP_WEIGHTS_MAX];

    for (size_t i = 0; i < op->n; i++) {
        products[i] = linears[op->w[i]];
        out[i] = rows->slots[op->out[i]];
    }
    return rows->backend->ops->linear(rows->backend, products, op->n, in, rows->rows,
                                      &(LinearOutput){ .y = out, .gate = gate }, err);
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
        layer_norm_rows(rows->backend, hparams, vectors, op->w[0], in, rows->rows, width, rows->slots[op->out[0]]);
        break;
    case OP_HEAD_NORM:
        ops->norm(rows->backend, in, vectors[op->w[0]], hparams->norm_eps, rows->rows * (width / hparams->head_size),
                  hparams->head_size, in);
        break;
    case OP_LINEAR:
        return run_linear(rows, op, &(LinearInput){ .x = in }, LINEAR_GATE_NONE, linears, err);
    case OP_ROPE:
        if (!hparams_layer_turns(hparams, rows->layer))
            break;
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
    case OP_ACTIVATE:
        ops->activate(rows->backend, in, rows->rows, width, hparams->arch->activation == ACTIVATION_GELU);
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

/* Whether nobody reads the slot behind the operators before `at` until it is written again. */
static bool is_done_with(const Arch *arch, size_t at, Slot slot) {
    for (size_t i = at; i < arch->n_ops; i++) {
        if (reads(&arch->ops[i], slot))
            return false;
        if (writes(&arch->ops[i], slot))
            return true;
    }
    return slot != SLOT_X; /* which the next layer reads */
}

/* How the product behind `at` takes in what the operators from there on make of its input: how many they are, the
 * product not counted. */
static size_t fused_input(const LayerRows *rows, size_t at, float *const *vectors, LinearInput *in) {
    const Arch *arch = rows->hparams->arch;
    const ArchOp *op = &arch->ops[at];
    const size_t n_add =
        op->kind == OP_ADD && at + 1 < arch->n_ops && op[1].kind == OP_NORM && op[1].in == SLOT_X ? 1 : 0;
    const ArchOp *norm = op + n_add, *linear = norm + 1;

    in->x = rows->slots[op->in];
    if (norm->kind != OP_NORM || at + n_add + 1 >= arch->n_ops || linear->kind != OP_LINEAR ||
        linear->in != norm->out[0] || !is_done_with(arch, at + n_add + 2, linear->in))
        return 0;
    if (n_add)
        in->stream = rows->slots[SLOT_X];
    in->norm = vectors[norm->w[0]];
    in->norm_bias = norm_bias(rows->hparams, vectors, norm->w[0]);
    in->eps = rows->hparams->norm_eps;
    return n_add + 1;
}

/* The gate behind the product at `at`, if that is what both of its outputs are for. */
static LinearGate fused_gate(const Arch *arch, size_t at) {
    const ArchOp *op = &arch->ops[at];

    if (op->n != 2 || op->out[0] != SLOT_GATE || op->out[1] != SLOT_UP || at + 1 == arch->n_ops ||
        op[1].kind != OP_GATED || op[1].in != SLOT_GATE || !is_done_with(arch, at + 2, SLOT_UP))
        return LINEAR_GATE_NONE;
    return arch->activation == ACTIVATION_GELU ? LINEAR_GATE_GELU : LINEAR_GATE_SILU;
}

const ArchOp *layer_ops_main(const Arch *arch, size_t at, size_t n) {
    for (size_t i = at; i < at + n; i++)
        if (arch->ops[i].kind == OP_LINEAR)
            return &arch->ops[i];
    return &arch->ops[at + n - 1];
}

/**
 * layer_run_ops() - the operator at `at` of the table, and the ones behind it that run with it as one
 * @n_ranp: how many that were
 *
 * A norm whose output only a product reads becomes a part of that product's input, where the device can, and so does
 * what is added to the stream just before the norm: rows go to int8 without a way through memory. Two products of which
 * one gates the other become one output. The slots between them are not written. Same bits. Otherwise as
 * layer_run_op().
 */
int layer_run_ops(const LayerRows *rows, size_t at, BackendLinear *const *linears, float *const *vectors,
                  size_t *n_ranp, ErrText *err) {
    const Arch *arch = rows->hparams->arch;
    LinearInput in = { 0 };
    const size_t n_before = rows->backend->ops->fuses ? fused_input(rows, at, vectors, &in) : 0;
    const ArchOp *op = &arch->ops[at + n_before];
    LinearGate gate = LINEAR_GATE_NONE;

    if (rows->backend->ops->fuses && op->kind == OP_LINEAR)
        gate = fused_gate(arch, at + n_before);
    *n_ranp = n_before + 1 + (gate ? 1 : 0);
    if (*n_ranp == 1)
        return layer_run_op(rows, op, linears, vectors, err);
    if (!n_before)
        in.x = rows->slots[op->in];
    return run_linear(rows, op, &in, gate, linears, err);
}
