// SPDX-License-Identifier: Apache-2.0
/* Float operators on rows, in one fixed order that every ISA shares. Nothing is contracted. Sums
 * have 16 partial sums by index mod 16, added up in one fixed tree. The same source is compiled once for each
 * instruction set (row_ops_impl.h). */
#ifndef COORDGEN_BACKENDS_CPU_ROW_OPS_H
#define COORDGEN_BACKENDS_CPU_ROW_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct RowOps {
    const char *name;
    uint32_t need; /* CPU_* bits */

    /* y = x / sqrt(mean(x^2) + eps) * w; y may be x. */
    void (*rms_norm)(const float *x, const float *w, float eps, size_t n, float *y);
    /* y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + bias; y may be x. */
    void (*layer_norm)(const float *x, const float *w, const float *bias, float eps, size_t n, float *y);
    /* x += y */
    void (*add)(float *x, const float *y, size_t n);
    /* x *= factor */
    void (*scale)(float *x, float factor, size_t n);
    /* out = silu(gate) * up, silu(a) = a / (1 + exp(-a)); out may be gate. */
    void (*silu_mul)(const float *gate, const float *up, size_t n, float *out);
    /* out = gelu_tanh(gate) * up; gelu_tanh(a) = a / (1 + exp(-2 z)), z = sqrt(2 / pi) (a + 0.044715 a^3). */
    void (*gelu_mul)(const float *gate, const float *up, size_t n, float *out);
    /* Activations in place, without a product. */
    void (*silu)(float *x, size_t n);
    void (*gelu)(float *x, size_t n);
    /* Rotates pairs of one head: NORM pairs (2i, 2i+1), NEOX pairs (i, i + n_rot/2); cos, sin [n_rot / 2]. */
    void (*rope_norm)(float *x, const float *cos, const float *sin, size_t n_rot);
    void (*rope_neox)(float *x, const float *cos, const float *sin, size_t n_rot);
    /* Rotates by blocks for quantization: y = orthonormal Walsh-Hadamard of x by blocks of `block` (a power of two,
     * 16..512, divides n); y may be x. Returns the greatest |y|, as amax(). */
    float (*hadamard)(const float *x, size_t n, size_t block, float *y);
    /* Returns the greatest |x|; NaN is ignored. */
    float (*amax)(const float *x, size_t n);
    /* Quantizes one row to symmetric int8, given its amax: scale = amax / 127, q = rint(x * (127 / amax)). Returns the
     * scale; an all-zero row gives scale 0. Each 64 levels are contiguous, piece_bytes after the previous 64
     * (Int8Rows). The last piece is padded with zeros. */
    float (*quantize)(const float *x, size_t n, float amax, size_t piece_bytes, int8_t *q);
    /* Quantizes one row with a static scale: q = rint(x * (1 / scale)) within +-127, laid out as in quantize(). Returns
     * the number of outliers among the n values: |x| > 127 * scale. */
    size_t (*quantize_static)(const float *x, size_t n, size_t piece_bytes, float scale, int8_t *q);
    /* Writes the row's outliers in rising order: their channels, and their rests x - scale * q. */
    void (*outliers)(const float *x, size_t n, float scale, uint32_t *channels, float *rests);
    /* y[o] += rest * (scales[o] * w[o]): one outlier times its column of weights. */
    void (*add_column)(float rest, const int8_t *w, const float *scales, size_t n, float *y);
    /* y = q * factor */
    void (*dequantize)(const int8_t *q, float factor, size_t n, float *y);
    /* Returns the sum of n <= INT8_K_MAX values; exact. */
    int32_t (*sum)(const int8_t *q, size_t n);
    /* Makes Int8Rows.shifted from q. */
    void (*shift)(const int8_t *q, size_t n, uint8_t *shifted);
    /* float32 dot product in the fixed order: 16 partial sums. */
    float (*dot)(const float *a, const float *b, size_t n);
} RowOps;

const RowOps *row_ops_select(uint32_t cpu);
size_t row_ops_n(void);
const RowOps *row_ops_at(size_t index);

#endif
