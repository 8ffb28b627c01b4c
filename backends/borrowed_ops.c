// SPDX-License-Identifier: Apache-2.0
#include "backends/borrowed_ops.h"

int borrowed_reserve(Backend *backend, const BackendShape *shape, ErrText *err) {
    return backend->host->ops->reserve(backend->host, shape, err);
}

void borrowed_shadow_counts(const Backend *backend, ShadowCounts *counts) {
    backend->host->ops->shadow_counts(backend->host, counts);
}

int borrowed_reserve_positions(Backend *backend, size_t n_positions, ErrText *err) {
    return backend->host->ops->reserve_positions(backend->host, n_positions, err);
}

void borrowed_norm(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n, float *y) {
    backend->host->ops->norm(backend->host, x, w, eps, rows, n, y);
}

void borrowed_layer_norm(Backend *backend, const float *x, const float *w, const float *bias, float eps, size_t rows,
                         size_t n, float *y) {
    backend->host->ops->layer_norm(backend->host, x, w, bias, eps, rows, n, y);
}

void borrowed_rope(Backend *backend, float *x, const float *cos, const float *sin, size_t rows, size_t n_heads,
                   size_t head_size, size_t n_rot, bool neox) {
    backend->host->ops->rope(backend->host, x, cos, sin, rows, n_heads, head_size, n_rot, neox);
}

void borrowed_kv_store(Backend *backend, const AttentionCall *call) {
    backend->host->ops->kv_store(backend->host, call);
}

void borrowed_attention(Backend *backend, const AttentionCall *call) {
    backend->host->ops->attention(backend->host, call);
}

void borrowed_kv_move(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves) {
    backend->host->ops->kv_move(backend->host, layer, moves, n_moves);
}

void borrowed_gated(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu) {
    backend->host->ops->gated(backend->host, gate, up, rows, n, gelu);
}

void borrowed_activate(Backend *backend, float *x, size_t rows, size_t n, bool gelu) {
    backend->host->ops->activate(backend->host, x, rows, n, gelu);
}

void borrowed_add(Backend *backend, float *x, const float *y, size_t rows, size_t n) {
    backend->host->ops->add(backend->host, x, y, rows, n);
}
