// SPDX-License-Identifier: Apache-2.0
/* Rows of many short texts through a model, one layer at a time, while its weights are being made: calibration and the
 * measurements of quantization. Every text is a window of its own, from position 0. */
#ifndef COORDGEN_ENGINE_LAYER_WALK_H
#define COORDGEN_ENGINE_LAYER_WALK_H

#include "base/cleanup.h"
#include "engine/step/layer_ops.h"

enum {
    LAYER_WALK_E_MEMORY = 1, /* a memory account's limit; the text has the bytes */
};

typedef struct LayerWalk LayerWalk;

/* Before a product: x f32[rows][k] is its input, and may be changed. Makes sure that linears[op->w[i]] are there.
 * Non-zero stops the walk. */
typedef int LayerWalkFn(void *arg, const ArchOp *op, float *x, size_t rows, size_t k, BackendLinear **linears,
                        ErrText *err);

/* backend and hparams outlive the walk; reserves the backend for its rows. outside: vectors by role. */
int layer_walk_new(LayerWalk **walkp, const Hparams *hparams, Backend *backend, AccountTable *accounts,
                   float *const *outside, size_t n_windows, size_t window, ErrText *err);
LayerWalk *layer_walk_free(LayerWalk *walk);
DEFINE_CLEANUP(LayerWalk, layer_walk_free)

size_t layer_walk_n_rows(const LayerWalk *walk);
/* The residual stream, f32[n_rows][n_embd]: may be read, kept and put back between layers. */
float *layer_walk_stream(LayerWalk *walk);

/* tokens u32[n_windows][window], each below n_vocab. */
void layer_walk_embed(LayerWalk *walk, const BackendLinear *embedding, const uint32_t *tokens);
int layer_walk_layer(LayerWalk *walk, uint32_t layer, BackendLinear **linears, float *const *vectors, LayerWalkFn *fn,
                     void *arg, ErrText *err);
/* One operator on all rows: 0, -errno. What it works on: f32[n_rows][width of the slot]. */
int layer_walk_op(LayerWalk *walk, uint32_t layer, const ArchOp *op, BackendLinear *const *linears,
                  float *const *vectors, ErrText *err);
float *layer_walk_slot(LayerWalk *walk, Slot slot);
/* Rotary tables of a layer, positions 0 .. window - 1. */
const RopeRows *layer_walk_rope(const LayerWalk *walk, uint32_t layer);
/* Logits of rows[n] of the stream, n at most n_rows: f32 logits[n][n_vocab]. 0, -errno. */
int layer_walk_logits(LayerWalk *walk, float *const *outside, const BackendLinear *head, const size_t *rows, size_t n,
                      float *logits, ErrText *err);

#endif
