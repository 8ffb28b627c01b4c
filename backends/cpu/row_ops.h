/* Float operators on rows, in one fixed order that every ISA shares: no contraction, 16 partial sums by index mod 16,
 * added up in one fixed tree. The same source is compiled once for each instruction set (row_ops_impl.h). */
#ifndef COORDGEN_BACKENDS_CPU_ROW_OPS_H
#define COORDGEN_BACKENDS_CPU_ROW_OPS_H

#include <stddef.h>
#include <stdint.h>

/* Attention of one query row: one group of query heads that share a KV head. */
typedef struct AttentionRow {
    const float *q;    /* [n_group][head_size], already rotated and scaled by nothing */
    const uint16_t *k; /* float16, key of logical position j at k + j * kv_stride */
    const uint16_t *v; /* float16, same stride */
    size_t kv_stride;  /* elements between positions */
    size_t begin, end; /* positions read, in rising order: [begin, end) */
    size_t n_group;    /* query heads of this KV head */
    size_t head_size;  /* multiple of 16 */
    float scale;       /* on the scores */
    float *scores;     /* scratch: [n_group][end - begin] */
    float *out;        /* [n_group][head_size]; may be q */
} AttentionRow;

typedef struct RowOps {
    const char *name;
    uint32_t need; /* CPU_* bits */

    /* y = x / sqrt(mean(x^2) + eps) * w; y may be x. */
    void (*rms_norm)(const float *x, const float *w, float eps, size_t n, float *y);
    /* x += y */
    void (*add)(float *x, const float *y, size_t n);
    /* x *= factor */
    void (*scale)(float *x, float factor, size_t n);
    /* out = silu(gate) * up, silu(a) = a / (1 + exp(-a)); out may be gate. */
    void (*silu_mul)(const float *gate, const float *up, size_t n, float *out);
    /* out = gelu_tanh(gate) * up; gelu_tanh(a) = a / (1 + exp(-2 z)), z = sqrt(2 / pi) (a + 0.044715 a^3). */
    void (*gelu_mul)(const float *gate, const float *up, size_t n, float *out);
    /* Rotates pairs of one head: NORM pairs (2i, 2i+1), NEOX pairs (i, i + n_rot/2); cos, sin [n_rot / 2]. */
    void (*rope_norm)(float *x, const float *cos, const float *sin, size_t n_rot);
    void (*rope_neox)(float *x, const float *cos, const float *sin, size_t n_rot);
    /* Rotation of quantization: orthonormal Walsh-Hadamard by blocks of `block` (a power of two, 32..512, divides n). */
    void (*hadamard)(float *x, size_t n, size_t block);
    /* Symmetric int8 of one row: scale = amax / 127, q = rint(x * (127 / amax)); q zero-padded to n_padded. Returns the
     * scale; an all-zero row gives scale 0. */
    float (*quantize)(const float *x, size_t n, size_t n_padded, int8_t *q);
    /* Static-tensor: q = rint(x * (1 / scale)) within +-127, zero-padded to n_padded. Returns how many of the n values
     * are outliers: |x| > 127 * scale. */
    size_t (*quantize_static)(const float *x, size_t n, size_t n_padded, float scale, int8_t *q);
    /* The outliers of the row in rising order: their channels, and their rests x - scale * q. */
    void (*outliers)(const float *x, size_t n, float scale, uint32_t *channels, float *rests);
    /* y[o] += rest * (scales[o] * w[o]): one outlier times its column of weights. */
    void (*add_column)(float rest, const int8_t *w, const float *scales, size_t n, float *y);
    /* Finite values past +-65504 are clamped; round to nearest even. */
    void (*to_f16)(const float *x, size_t n, uint16_t *half);
    /* Softmax over the scores of [begin, end), then the weighted sum of values in rising position. */
    void (*attention)(const AttentionRow *row);
    /* The same for rows of one k, v, kv_stride, n_group and head_size, each with its own range, scores and out: the same
     * bits, and keys and values are read once for all of them. */
    void (*attention_rows)(const AttentionRow *rows, size_t n_rows);
    /* x[n] -> exp(x) for any finite x (0 below the range, +inf above); error below 2 ulp. Shared with the sampler. */
    void (*exp)(const float *x, size_t n, float *y);
    /* float32 dot product in the fixed order: 16 partial sums. */
    float (*dot)(const float *a, const float *b, size_t n);
} RowOps;

const RowOps *row_ops_select(uint32_t cpu);
size_t row_ops_n(void);
const RowOps *row_ops_at(size_t index);

#endif
