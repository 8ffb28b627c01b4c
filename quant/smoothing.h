// SPDX-License-Identifier: Apache-2.0
/* EdgeFlow's smoothing (4.1) divides every channel of a product's input by S^alpha, where S is its largest magnitude
 * on calibration rows, and multiplies the weights' columns by it. One scale per row then serves all channels better.
 * The division costs nothing at run time, because it is folded into the operator that makes the input:  product
 * its input is made by           folded into attn_q, _k, _v      attn_norm                      the norm's weights
 * attn_output         attention over the values      channels of attn_v and of its bias; the query heads of a kv head
 * share factors (the largest of their magnitudes) ffn_gate, ffn_up    ffn_norm                       the norm's
 * weights ffn_down            activation(gate) * up          channels of ffn_up  gemma3's norms after attention and
 * feed-forward come after attn_output and ffn_down, and stay as they are.  The paper's beta scales outputs likewise
 * (W' = W diag(S_O^-beta), output times S_O^beta), and is 1 for outputs stored as int8. Products here leave as
 * float32: a factor of an output channel goes into that channel's scale, changes no integer and no float sum, and
 * leaves RE as it is. Beta is therefore left out. Factors folded into channels of attn_v and ffn_up may, for the same
 * reason, go into their scales if they are integers already. */
#ifndef COORDGEN_QUANT_SMOOTHING_H
#define COORDGEN_QUANT_SMOOTHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/system/worker_pool.h"
#include "quant/format/grid.h"

enum {
    SMOOTHING_E_NOT_FINITE = 1, /* a weight or an input is not finite */
};

#define SMOOTHING_ALPHA_STEPS 20    /* alpha is 0, 1/20, ..., 1 */
#define SMOOTHING_ROWS 64           /* sampled evenly from the calibration rows, to judge alpha */
#define SMOOTHING_CHANNELS 128      /* sampled evenly from every linear's channels */
#define SMOOTHING_RATIO_MAX 1024.0  /* S over its geometric mean is kept within this and its inverse */
#define SMOOTHING_INPUTS_MAX 131072 /* int32 holds every sum of so many products */

typedef struct SmoothingLinear {
    const float *w; /* f32[n][k] */
    size_t n;
    const int8_t *bits; /* [n]; NULL: Algorithm 1 at average_bits, over the sampled channels */
} SmoothingLinear;

/* Linears that share an input. */
typedef struct SmoothingGroup {
    const float *x; /* f32[rows][k] */
    size_t rows, k;
    const float *maxima; /* f32[k] */
    const SmoothingLinear *linears;
    size_t n_linears;
    double average_bits;
    Grid grid;
    bool search_scales;
} SmoothingGroup;

/* Raises maxima[k] to the largest of themselves and |x[rows][k]|. */
void smoothing_maxima(const float *x, size_t rows, size_t k, float *maxima);
/* Makes maxima[n_heads * head_size] of attn_output equal over the query heads of a kv head. */
void smoothing_share_heads(float *maxima, size_t n_heads, size_t n_kv_heads, size_t head_size);
/* Computes factors[k] = (S / geometric mean)^alpha. */
void smoothing_factors(const float *maxima, size_t k, double alpha, float *factors);

/* Finds the alpha with the least error, and its factors f32[k]. */
int smoothing_search(const SmoothingGroup *group, WorkerPool *pool, double *alphap, float *factors);
/* Measures the error that smoothing_search() compares. */
int smoothing_error(const SmoothingGroup *group, const float *factors, WorkerPool *pool, double *errorp);

/* Multiplies the columns of w[n][k] by factors[k], in the linears that read the input. */
void smoothing_multiply_columns(float *w, size_t n, size_t k, const float *factors);
/* x[rows][k] columns over factors[k]: rows that were computed before the factors were folded in. */
void smoothing_divide_columns(float *x, size_t rows, size_t k, const float *factors);
/* v[n] over factors[n]: a norm's weights, a bias, scales of channels. */
void smoothing_divide(float *v, size_t n, const float *factors);
/* Selects the factors of attn_v's channels, [n_kv_heads * head_size], from factors[n_heads * head_size] of
 * attn_output's input. */
void smoothing_value_factors(const float *factors, size_t n_heads, size_t n_kv_heads, size_t head_size,
                             float *value_factors);

#endif
