// SPDX-License-Identifier: Apache-2.0
/* Gradients through the operators of a layer (layer_ops.h), in float32: from the gradient of an operator's output to
 * those of its inputs. Rounding to integers counts as the identity. Products are OpenBLAS's, in pieces that do not
 * depend on the number of threads: the caller calls blas_load() first. */
#ifndef COORDGEN_IMPORTER_BACKWARD_H
#define COORDGEN_IMPORTER_BACKWARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/system/worker_pool.h"

/* y = RMSNorm(x) * w by rows of n: turns dy f32[rows][n] into dx. */
void backward_norm(const float *x, const float *w, float eps, size_t rows, size_t n, float *dy, WorkerPool *pool);
/* y = LayerNorm(x) * w + bias by rows of n: turns dy f32[rows][n] into dx. */
void backward_layer_norm(const float *x, const float *w, float eps, size_t rows, size_t n, float *dy, WorkerPool *pool);
/* Rotary positions on the heads of every row: d f32[rows][n_heads * head_size] in place; cos, sin f32[rows][n_rot /
 * 2]. */
void backward_rope(float *d, const float *cos, const float *sin, size_t rows, size_t n_heads, size_t head_size,
                   size_t n_rot, bool neox);
/* y = activation(gate) * up: d_gate holds dy on entry; all f32[n]. */
void backward_gated(const float *gate, const float *up, size_t n, bool gelu, float *d_gate, float *d_up,
                    WorkerPool *pool);
/* y = activation(x): d holds dy on entry; all f32[n]. */
void backward_activation(const float *x, size_t n, bool gelu, float *d, WorkerPool *pool);
/* y = x w^T: dx f32[rows][k] += dy f32[rows][n] w[n][k]. */
void backward_linear(const float *dy, const float *w, size_t rows, size_t n, size_t k, float *dx, WorkerPool *pool);

/* Causal attention within windows of rows, after rotary positions. */
typedef struct BackwardAttention {
    const float *q;     /* [n_windows * window][n_heads * head_size] */
    const float *k, *v; /* [n_windows * window][n_kv_heads * head_size] */
    float *d_q;         /* shape of q; in: gradient of the output */
    float *d_k, *d_v;   /* shape of k; out */
    size_t n_windows, window;
    size_t n_heads, n_kv_heads, head_size;
    size_t sees; /* positions that a row sees, its own included; 0: all */
    float scale;
    float soft_cap; /* soft cap of the scores; 0: none */
} BackwardAttention;

/* Computes the gradients. 0 or -ENOMEM. */
int backward_attention(const BackwardAttention *call, WorkerPool *pool);

#endif
