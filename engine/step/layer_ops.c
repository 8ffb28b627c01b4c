// SPDX-License-Identifier: Apache-2.0
#include "engine/step/layer_ops.h"

#include "base/min_max.h"

void *layer_carve(uint8_t *block, size_t *at_bytesp, size_t len_bytes) {
    size_t at_bytes = *at_bytesp;

    *at_bytesp = at_bytes + ((len_bytes + 63) & ~(size_t)63);
    return block ? block + at_bytes : NULL;
}

BackendShape layer_backend_shape(const Hparams *hparams, size_t rows) {
    size_t width = hparams_dim(hparams, DIM_HEADS);

    width = MAX(width, hparams->n_embd);
    return (BackendShape){
        .rows = rows,
        .width = MAX(width, hparams->n_ff),
        .n_vocab = hparams->n_vocab,
        .n_heads = hparams->n_heads,
        .n_kv_heads = hparams->n_kv_heads,
        .head_size = hparams->head_size,
    };
}

size_t layer_slot_width(const Hparams *hparams, Slot slot) {
    return hparams_dim(hparams, slot_dim(slot));
}

/* Returns the bias of a norm; NULL: the norm is one of squares and has none. */
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

/* Returns the first of the rows in a slot. */
static float *slot_of(const LayerRows *rows, Slot slot) {
    return rows->slots[slot] + rows->rows.first * layer_slot_width(rows->hparams, slot);
}

static void run_attention(const LayerRows *rows) {
    const Hparams *hparams = rows->hparams;
    const AttentionCall call = {
        .batch = rows->batch,
        .rows = rows->rows,
        .kv = rows->kv,
        .q = slot_of(rows, SLOT_Q),
        .k = slot_of(rows, SLOT_K),
        .v = slot_of(rows, SLOT_V),
        .n_heads = hparams->n_heads,
        .window = hparams_layer_is_local(hparams, rows->layer) ? hparams->window.positions : 0,
        .scale = hparams->attention_scale,
        .balance = rows->balance,
        .soft_cap = hparams->attention_cap,
    };

    rows->backend->ops->kv_store(rows->backend, &call);
    if (rows->stored)
        rows->stored(rows->stored_arg);
    if (rows->joint)
        rows->backend->ops->attention_joint(rows->backend, &call, rows->joint);
    else
        rows->backend->ops->attention(rows->backend, &call);
}

static void run_rope(const LayerRows *rows, Slot slot) {
    const Hparams *hparams = rows->hparams;
    const size_t at = rows->rows.first * (hparams->n_rot / 2);

    if (!hparams_layer_turns(hparams, rows->layer))
        return;
    rows->backend->ops->rope(rows->backend, slot_of(rows, slot), rows->rope->cos + at, rows->rope->sin + at,
                             rows->rows.n, layer_slot_width(hparams, slot) / hparams->head_size, hparams->head_size,
                             hparams->n_rot, hparams->arch->rope == ROPE_NEOX);
}

/* Matrices of one operator, and where their outputs go. */
typedef struct Products {
    const BackendLinear *linears[OP_WEIGHTS_MAX];
    float *out[OP_WEIGHTS_MAX];
} Products;

static Products products_of(const LayerRows *rows, const ArchOp *op, BackendLinear *const *linears) {
    Products products = { 0 };

    for (size_t i = 0; i < op->n; i++) {
        products.linears[i] = linears[op->w[i]];
        products.out[i] = slot_of(rows, op->out[i]);
    }
    return products;
}

static int run_linear(const LayerRows *rows, const ArchOp *op, const LinearInput *in, LinearGate gate,
                      BackendLinear *const *linears, ErrText *err) {
    const Products products = products_of(rows, op, linears);

    return rows->backend->ops->linear(rows->backend, products.linears, op->n, in, rows->rows.n,
                                      &(LinearOutput){ .y = products.out, .gate = gate }, err);
}

/**
 * layer_run_op() - one operator of the architecture's table on rows
 * @rows:    their slots are read and written as the operator says; OP_ATTENTION writes the KV caches
 * @linears: by role; those of the operator must be there
 * @vectors: f32, by role; those of the operator must be there
 *
 * Thread: the one that computes. Allocates nothing.
 * Return: 0; BACKEND_E_READ or -errno when weights that are read on demand could not be.
 */
int layer_run_op(const LayerRows *rows, const ArchOp *op, BackendLinear *const *linears, float *const *vectors,
                 ErrText *err) {
    const Hparams *hparams = rows->hparams;
    const BackendOps *ops = rows->backend->ops;
    float *in = slot_of(rows, op->in);
    const size_t n = rows->rows.n, width = layer_slot_width(hparams, op->in);

    switch (op->kind) {
    case OP_NORM:
        layer_norm_rows(rows->backend, hparams, vectors, op->w[0], in, n, width, slot_of(rows, op->out[0]));
        break;
    case OP_HEAD_NORM:
        ops->norm(rows->backend, in, vectors[op->w[0]], hparams->norm_eps, n * (width / hparams->head_size),
                  hparams->head_size, in);
        break;
    case OP_LINEAR:
        return run_linear(rows, op, &(LinearInput){ .x = in }, LINEAR_GATE_NONE, linears, err);
    case OP_ROPE:
        run_rope(rows, op->in);
        break;
    case OP_ATTENTION:
        run_attention(rows);
        break;
    case OP_GATED:
        ops->gated(rows->backend, in, slot_of(rows, SLOT_UP), n, width, hparams->arch->activation == ACTIVATION_GELU);
        break;
    case OP_ACTIVATE:
        ops->activate(rows->backend, in, n, width, hparams->arch->activation == ACTIVATION_GELU);
        break;
    case OP_ADD:
        ops->add(rows->backend, slot_of(rows, SLOT_X), in, n, width);
        break;
    }
    return 0;
}

/**
 * layer_run_node() - run the operators of a node as one
 *
 * Arguments and errors are those of layer_run_op().
 */
int layer_run_node(const LayerRows *rows, const LayerNode *node, BackendLinear *const *linears, float *const *vectors,
                   ErrText *err) {
    LinearInput in = { .x = slot_of(rows, node->first->in) };

    if (node->n_ops == 1)
        return layer_run_op(rows, node->first, linears, vectors, err);
    if (node->add)
        in.stream = slot_of(rows, SLOT_X);
    if (node->norm) {
        in.norm = vectors[node->norm->w[0]];
        in.norm_bias = norm_bias(rows->hparams, vectors, node->norm->w[0]);
        in.eps = rows->hparams->norm_eps;
    }
    return run_linear(rows, node->main, &in, node->gate, linears, err);
}

bool layer_node_is_queued(const Backend *backend, const LayerNode *node, BackendLinear *const *linears) {
    if (node->n_ops != 1 || node->main->kind != OP_LINEAR)
        return false;
    for (size_t i = 0; i < node->main->n; i++)
        if (!backend->ops->is_queued(linears[node->main->w[i]]))
            return false;
    return true;
}

void layer_submit_node(const LayerRows *rows, const LayerNode *node, BackendLinear *const *linears, size_t slot) {
    const Products products = products_of(rows, node->main, linears);

    rows->backend->ops->linear_submit(rows->backend, slot, products.linears, node->main->n,
                                      slot_of(rows, node->main->in), rows->rows.n, products.out);
}

int layer_run_node_here(const LayerRows *rows, const LayerNode *node, BackendLinear *const *linears, BackendTime *time,
                        ErrText *err) {
    const Products products = products_of(rows, node->main, linears);

    return rows->backend->ops->linear_here(rows->backend, products.linears, node->main->n,
                                           slot_of(rows, node->main->in), rows->rows.n, products.out, time, err);
}
