// SPDX-License-Identifier: Apache-2.0
#include "engine/step/layer_walk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/numeric/exp_row.h"
#include "base/memory/account_refusal.h"
#include "base/system/cpu.h"

struct LayerWalk {
    const Hparams *hparams;
    Backend *backend;
    size_t n_windows, window;
    AccountedBlock rows; /* slots and rotary tables */
    AccountedBlock kv;   /* blocks of one window in one layer: keys, values; windows follow each other */
    void **blocks;       /* [n_blocks] in kv */
    Batch batch;         /* rows of one window: positions 0 .. window - 1, without tokens */
    BatchSequence sequence;
    float *slots[_SLOT_N]; /* f32[n_windows * window][dim of the slot] */
    const float *balances; /* f32[n_layers][DIM_KV], or NULL: ones */
    RopeRows rope[2];      /* tables of global and of sliding-window layers; positions 0 .. window - 1 */
};

LayerWalk *layer_walk_free(LayerWalk *walk) {
    if (!walk)
        return NULL;
    accounted_block_deinit(&walk->rows);
    accounted_block_deinit(&walk->kv);
    free(walk->blocks);
    free(walk->batch.rows);
    free(walk);
    return NULL;
}

static size_t carve_rows(LayerWalk *walk, uint8_t *block) {
    size_t at_bytes = 0, half = walk->hparams->n_rot / 2, rows = walk->n_windows * walk->window;

    for (size_t slot = 0; slot < _SLOT_N; slot++)
        walk->slots[slot] =
            layer_carve(block, &at_bytes, rows * layer_slot_width(walk->hparams, (Slot)slot) * sizeof(float));
    for (size_t i = 0; i < ARRAY_LEN(walk->rope); i++)
        walk->rope[i] = (RopeRows){
            .freqs = layer_carve(block, &at_bytes, half * sizeof(double)),
            .cos = layer_carve(block, &at_bytes, walk->window * half * sizeof(float)),
            .sin = layer_carve(block, &at_bytes, walk->window * half * sizeof(float)),
        };
    return at_bytes;
}

static size_t n_blocks(const LayerWalk *walk) {
    const size_t positions = walk->backend->ops->kv_block_positions;

    return (walk->window + positions - 1) / positions;
}

/* Returns the bytes of keys or values of one layer in a block. */
static size_t plane_bytes(const LayerWalk *walk) {
    const BackendOps *ops = walk->backend->ops;

    return ops->kv_block_positions * walk->hparams->n_kv_heads * ops->kv_row_bytes(walk->hparams->head_size);
}

static int reserve(LayerWalk *walk, AccountTable *accounts, ErrText *err) {
    const Hparams *hparams = walk->hparams;
    size_t rows_bytes = carve_rows(walk, NULL);
    size_t kv_bytes = n_blocks(walk) * 2 * plane_bytes(walk);
    const BackendShape shape = layer_backend_shape(hparams, walk->n_windows * walk->window);
    int r;

    r = accounted_block_init(&walk->rows, accounts, ACCOUNT_ACTIVATIONS, rows_bytes);
    if (!r)
        r = accounted_block_init(&walk->kv, accounts, ACCOUNT_KV, kv_bytes);
    if (r)
        return account_refused(err, LAYER_WALK_E_MEMORY, r, accounts, ACCOUNT_ACTIVATIONS, rows_bytes + kv_bytes,
                               "%zu rows of calibration", shape.rows);
    carve_rows(walk, walk->rows.data);
    walk->blocks = calloc(n_blocks(walk), sizeof(*walk->blocks));
    walk->batch.rows = calloc(walk->window, sizeof(*walk->batch.rows));
    if (!walk->blocks || !walk->batch.rows)
        return err_no_memory(err);
    walk->batch.sequences = &walk->sequence;
    batch_add_chain(&walk->batch, walk->blocks, 0, walk->window);
    for (size_t i = 0; i < n_blocks(walk); i++)
        walk->blocks[i] = (uint8_t *)walk->kv.data + i * 2 * plane_bytes(walk);
    r = walk->backend->ops->reserve(walk->backend, &shape, err);
    if (!r)
        r = walk->backend->ops->reserve_positions(walk->backend, walk->window, err);
    return r > 0 ? LAYER_WALK_E_MEMORY : r;
}

/**
 * layer_walk_new() - reserve memory for n_windows texts of `window` tokens
 * @outside: vectors outside the layers, by role; rotary divisors are read during the call
 *
 * Memory: rows * (4 * n_embd + 2 * (n_heads + n_kv_heads) * head_size / 2 + 2 * n_ff) * 4 bytes, about 1.6 GB for 15360
 * rows of a model of 1.5 billion weights. Thread: the one that computes, for this and all calls below.
 * Return: 0, LAYER_WALK_E_MEMORY, -ENOMEM.
 */
int layer_walk_new(LayerWalk **walkp, const Hparams *hparams, Backend *backend, AccountTable *accounts,
                   float *const *outside, size_t n_windows, size_t window, ErrText *err) {
    _cleanup_(layer_walk_freep) LayerWalk *walk = calloc(1, sizeof(*walk));
    int r;

    if (!walk)
        return err_no_memory(err);
    walk->hparams = hparams;
    walk->backend = backend;
    walk->n_windows = n_windows;
    walk->window = window;
    r = reserve(walk, accounts, err);
    if (r)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(walk->rope); i++) {
        rope_rows_prepare(&walk->rope[i], hparams, i == 1, outside);
        rope_rows_fill(&walk->rope[i], hparams->n_rot / 2, &walk->batch, (BatchRange){ 0, window });
    }
    *walkp = steal(&walk);
    return 0;
}

size_t layer_walk_n_rows(const LayerWalk *walk) {
    return walk->n_windows * walk->window;
}

float *layer_walk_slot(LayerWalk *walk, Slot slot) {
    return walk->slots[slot];
}

float *layer_walk_stream(LayerWalk *walk) {
    return layer_walk_slot(walk, SLOT_X);
}

const RopeRows *layer_walk_rope(const LayerWalk *walk, uint32_t layer) {
    return &walk->rope[hparams_layer_turns_locally(walk->hparams, layer)];
}

void layer_walk_set_balances(LayerWalk *walk, const float *balances) {
    walk->balances = balances;
}

void layer_walk_embed(LayerWalk *walk, const BackendLinear *embedding, const uint32_t *tokens) {
    walk->backend->ops->embed(walk->backend, embedding, tokens, layer_walk_n_rows(walk), walk->hparams->embedding_scale,
                              walk->slots[SLOT_X]);
}

/* Rotary positions and attention see one window at a time, and the windows use one cache, one after the other. */
int layer_walk_op(LayerWalk *walk, uint32_t layer, const ArchOp *op, BackendLinear *const *linears,
                  float *const *vectors, ErrText *err) {
    const bool by_window = op->kind == OP_ROPE || op->kind == OP_ATTENTION;
    const size_t n_rows = layer_walk_n_rows(walk), step = by_window ? walk->window : n_rows;
    float *slots[_SLOT_N];
    const LayerRows rows = {
        .hparams = walk->hparams,
        .backend = walk->backend,
        .batch = &walk->batch,
        .rows = { 0, step },
        .layer = layer,
        .kv = { 0, plane_bytes(walk), walk->hparams->n_kv_heads, walk->hparams->head_size },
        .balance = walk->balances ? walk->balances + layer * hparams_dim(walk->hparams, DIM_KV) : NULL,
        .slots = slots,
        .rope = layer_walk_rope(walk, layer),
    };

    for (size_t first = 0; first < n_rows; first += step) {
        int r;

        for (size_t slot = 0; slot < _SLOT_N; slot++)
            slots[slot] = walk->slots[slot] + first * layer_slot_width(walk->hparams, (Slot)slot);
        r = layer_run_op(&rows, op, linears, vectors, err);

        if (r)
            return r < 0 ? r : -EIO;
    }
    return 0;
}

/**
 * layer_walk_layer() - run all operators of one layer on all rows
 * @linears: by role; @fn makes those that are missing before they are used; they belong to the caller
 * @fn:      called before every OP_LINEAR with the input of its products; may be NULL if all linears are there
 *
 * The bits of a row are those that engine_forward() computes for it, if the balances are those of the load.
 * Return: 0, what @fn returned, or -EIO: a read of weights on demand failed.
 */
int layer_walk_layer(LayerWalk *walk, uint32_t layer, BackendLinear **linears, float *const *vectors, LayerWalkFn *fn,
                     void *arg, ErrText *err) {
    const Arch *arch = walk->hparams->arch;
    size_t n_rows = layer_walk_n_rows(walk);
    int r;

    for (size_t i = 0; i < arch->n_ops; i++) {
        const ArchOp *op = &arch->ops[i];

        if (op->kind == OP_LINEAR && fn) {
            r = fn(arg, op, walk->slots[op->in], n_rows, layer_slot_width(walk->hparams, op->in), linears, err);
            if (r)
                return r;
        }
        r = layer_walk_op(walk, layer, op, linears, vectors, err);
        if (r)
            return r;
    }
    return 0;
}

int layer_walk_logits(LayerWalk *walk, float *const *outside, const BackendLinear *head, const size_t *rows, size_t n,
                      float *logits, ErrText *err) {
    const BackendOps *ops = walk->backend->ops;
    size_t width = walk->hparams->n_embd;
    int r;

    assert(n <= layer_walk_n_rows(walk));
    for (size_t i = 0; i < n; i++)
        memcpy(walk->slots[SLOT_OUT] + i * width, walk->slots[SLOT_X] + rows[i] * width, width * sizeof(float));
    layer_norm_rows(walk->backend, walk->hparams, outside, ROLE_OUTPUT_NORM, walk->slots[SLOT_OUT], n, width,
                    walk->slots[SLOT_NORM]);
    r = ops->linear(walk->backend, &head, 1, &(LinearInput){ .x = walk->slots[SLOT_NORM] }, n,
                    &(LinearOutput){ .y = &logits }, err);
    if (!r && walk->hparams->logit_cap > 0)
        exp_row_select(cpu_features())->soft_cap(logits, n * walk->hparams->n_vocab, walk->hparams->logit_cap);
    return r > 0 ? -EIO : r;
}
