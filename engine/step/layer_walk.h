// SPDX-License-Identifier: Apache-2.0
/* Layer walk: takes rows of many short texts through a model, one layer at a time, while the model's weights are being
 * made. Calibration and the measurements of quantization use it. Every text is a window of its own, from position 0. */
#ifndef COORDGEN_ENGINE_LAYER_WALK_H
#define COORDGEN_ENGINE_LAYER_WALK_H

#include "base/cleanup.h"
#include "engine/step/layer_ops.h"

enum {
    LAYER_WALK_E_MEMORY = 1, /* a memory account's limit; the text has the bytes */
};

typedef struct LayerWalk LayerWalk;

/* Called before a product with its input x f32[rows][k], which may be changed. Makes linears[op->w[i]] if they are not
 * there. Return: 0; anything else stops the walk. */
typedef int LayerWalkFn(void *arg, const ArchOp *op, float *x, size_t rows, size_t k, BackendLinear **linears,
                        ErrText *err);

/* Makes a walk and reserves the backend for its rows; backend and hparams outlive it. outside: vectors by role. */
int layer_walk_new(LayerWalk **walkp, const Hparams *hparams, Backend *backend, AccountTable *accounts,
                   float *const *outside, size_t n_windows, size_t window, ErrText *err);
LayerWalk *layer_walk_free(LayerWalk *walk);
DEFINE_CLEANUP(LayerWalk, layer_walk_free)

size_t layer_walk_n_rows(const LayerWalk *walk);
/* Returns the residual stream, f32[n_rows][n_embd], which may be read, saved and restored between layers. */
float *layer_walk_stream(LayerWalk *walk);

/* Sets what attention divides keys by (AttentionCall.balance): f32[n_layers][n_kv_heads * head_size], the caller's. A
 * layer's values are read when its attention runs. Without this call all are 1. */
void layer_walk_set_balances(LayerWalk *walk, const float *balances);

/* Puts the embeddings of tokens u32[n_windows][window], each below n_vocab, into the stream. */
void layer_walk_embed(LayerWalk *walk, const BackendLinear *embedding, const uint32_t *tokens);
/* Runs all operators of a layer on all rows. */
int layer_walk_layer(LayerWalk *walk, uint32_t layer, BackendLinear **linears, float *const *vectors, LayerWalkFn *fn,
                     void *arg, ErrText *err);
/* Runs one operator on all rows: 0, -errno. */
int layer_walk_op(LayerWalk *walk, uint32_t layer, const ArchOp *op, BackendLinear *const *linears,
                  float *const *vectors, ErrText *err);
/* Returns the rows of a slot, f32[n_rows][width of the slot]. */
float *layer_walk_slot(LayerWalk *walk, Slot slot);
/* Returns the rotary tables of a layer, positions 0 .. window - 1. */
const RopeRows *layer_walk_rope(const LayerWalk *walk, uint32_t layer);
/* Computes f32 logits[n][n_vocab] of rows[n] of the stream, n at most n_rows. 0, -errno. */
int layer_walk_logits(LayerWalk *walk, float *const *outside, const BackendLinear *head, const size_t *rows, size_t n,
                      float *logits, ErrText *err);

#endif
