// SPDX-License-Identifier: Apache-2.0
/* Operators that a device leaves to another one, its host. For example, an NPU that runs only products borrows all
 * other operators from the cpu device. The device's caches are then the host's: its table repeats the host's kv_type,
 * kv_row_bytes and kv_block_positions. */
#ifndef COORDGEN_BACKENDS_BORROWED_OPS_H
#define COORDGEN_BACKENDS_BORROWED_OPS_H

#include "backends/backend.h"

/* Each function calls the host's operator of that name. */
int borrowed_reserve(Backend *backend, const BackendShape *shape, ErrText *err);
void borrowed_shadow_counts(const Backend *backend, ShadowCounts *counts);
int borrowed_reserve_positions(Backend *backend, size_t n_positions, ErrText *err);
void borrowed_norm(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n, float *y);
void borrowed_layer_norm(Backend *backend, const float *x, const float *w, const float *bias, float eps, size_t rows,
                         size_t n, float *y);
void borrowed_rope(Backend *backend, float *x, const float *cos, const float *sin, size_t rows, size_t n_heads,
                   size_t head_size, size_t n_rot, bool neox);
void borrowed_kv_store(Backend *backend, const AttentionCall *call);
void borrowed_attention(Backend *backend, const AttentionCall *call);
void borrowed_kv_move(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves);
void borrowed_gated(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu);
void borrowed_activate(Backend *backend, float *x, size_t rows, size_t n, bool gelu);
void borrowed_add(Backend *backend, float *x, const float *y, size_t rows, size_t n);

/* Table entries of all operators that take no matrix. */
#define BORROWED_OPERATORS                                                                                             \
    .reserve_positions = borrowed_reserve_positions, .norm = borrowed_norm, .layer_norm = borrowed_layer_norm,         \
    .rope = borrowed_rope, .kv_store = borrowed_kv_store, .attention = borrowed_attention,                             \
    .kv_move = borrowed_kv_move, .gated = borrowed_gated, .activate = borrowed_activate, .add = borrowed_add

#endif
