// SPDX-License-Identifier: Apache-2.0
/* Source of the row operators, compiled once for each instruction set. The including file defines ROW_OPS_NAME and
 * ROW_OPS_NEED and is compiled with the flags of its suffix. All builds give the same bits: every float operation
 * belongs to one lane, in an order that the code below fixes, and is contracted only by lanes_fma()
 * (-ffp-contract=off). The only libm functions are sqrtf and fmaf, which IEEE 754 defines to the bit. */
#ifndef COORDGEN_BACKENDS_CPU_ROW_OPS_IMPL_H
#define COORDGEN_BACKENDS_CPU_ROW_OPS_IMPL_H

#include <assert.h>
#include <float.h>
#include <math.h>

#include "backends/cpu/int8/int8_product.h"
#include "backends/cpu/rows/row_ops.h"
#include "backends/numeric/lanes.h"
#include "backends/numeric/lanes_gate.h"
#include "backends/numeric/lanes_hadamard.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

/* Dot product: 16 partial sums by index mod 16; lanes past n add zero. */
static float dot(const float *a, const float *b, size_t n) {
    Lanes sum = lanes_of(0);

    for (size_t i = 0; i < n; i += N_LANES)
        sum = lanes_add_product(sum, lanes_load_n(a + i, n - i, 0), lanes_load_n(b + i, n - i, 0));
    return lanes_sum(sum);
}

/* y = (x (1 / sqrt(sum of x^2 / n + eps))) w */
static void rms_norm(const float *x, const float *w, float eps, size_t n, float *y) {
    const Lanes factor = lanes_of(1.0f / sqrtf(dot(x, x, n) / (float)n + eps));

    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(y + i, n - i,
                      lanes_mul(lanes_mul(lanes_load_n(x + i, n - i, 0), factor), lanes_load_n(w + i, n - i, 0)));
}

/* d = x - (sum of x / n), lanes past n zero; y = ((d (1 / sqrt(sum of d^2 / n + eps))) w) + bias, each step rounded. */
static void layer_norm(const float *x, const float *w, const float *bias, float eps, size_t n, float *y) {
    Lanes sum = lanes_of(0), mean, factor;

    for (size_t i = 0; i < n; i += N_LANES)
        sum = lanes_add(sum, lanes_load_n(x + i, n - i, 0));
    mean = lanes_of(-(lanes_sum(sum) / (float)n));
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(y + i, n - i, lanes_add(lanes_load_n(x + i, n - i, 0), mean));
    factor = lanes_of(1.0f / sqrtf(dot(y, y, n) / (float)n + eps));
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(
            y + i, n - i,
            lanes_add(lanes_mul(lanes_mul(lanes_load_n(y + i, n - i, 0), factor), lanes_load_n(w + i, n - i, 0)),
                      lanes_load_n(bias + i, n - i, 0)));
}

static void add(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(x + i, n - i, lanes_add(lanes_load_n(x + i, n - i, 0), lanes_load_n(y + i, n - i, 0)));
}

static void scale(float *x, float factor, size_t n) {
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(x + i, n - i, lanes_mul(lanes_load_n(x + i, n - i, 0), lanes_of(factor)));
}

static void silu_mul(const float *gate, const float *up, size_t n, float *out) {
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(out + i, n - i, lanes_silu_mul(lanes_load_n(gate + i, n - i, 0), lanes_load_n(up + i, n - i, 0)));
}

static void gelu_mul(const float *gate, const float *up, size_t n, float *out) {
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(out + i, n - i, lanes_gelu_mul(lanes_load_n(gate + i, n - i, 0), lanes_load_n(up + i, n - i, 0)));
}

/* A product with 1 is the activation itself, to the bit. */
static void silu(float *x, size_t n) {
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(x + i, n - i, lanes_silu_mul(lanes_load_n(x + i, n - i, 0), lanes_of(1)));
}

static void gelu(float *x, size_t n) {
    for (size_t i = 0; i < n; i += N_LANES)
        lanes_store_n(x + i, n - i, lanes_gelu_mul(lanes_load_n(x + i, n - i, 0), lanes_of(1)));
}

/* (a, b) -> (a cos - b sin, a sin + b cos), each product rounded. */
static void rope_norm(float *restrict x, const float *restrict cos, const float *restrict sin, size_t n_rot) {
    for (size_t i = 0; i < n_rot / 2; i++) {
        float a = x[2 * i], b = x[2 * i + 1];

        x[2 * i] = a * cos[i] - b * sin[i];
        x[2 * i + 1] = a * sin[i] + b * cos[i];
    }
}

static void rope_neox(float *restrict x, const float *restrict cos, const float *restrict sin, size_t n_rot) {
    const size_t half = n_rot / 2;

    for (size_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];

        x[i] = a * cos[i] - b * sin[i];
        x[i + half] = a * sin[i] + b * cos[i];
    }
}

/* Stores the levels of a row, in pieces of 64 that are piece_bytes apart. The last piece is separate, so that the
 * others are stored in place directly. */
LANES_INLINE void store_row_levels(const float *x, size_t n, size_t piece_bytes, Lanes factor, int8_t *q) {
    _Static_assert(INT8_TILE_INPUTS % N_LANES == 0, "lanes do not cross pieces");
    for (; n >= INT8_TILE_INPUTS; n -= INT8_TILE_INPUTS, x += INT8_TILE_INPUTS, q += piece_bytes)
        UNROLL for (size_t i = 0; i < INT8_TILE_INPUTS; i += N_LANES)
            store_levels(q + i, lanes_mul(lanes_load(x + i), factor));
    if (n) {
        memset(q, 0, INT8_TILE_INPUTS);
        for (size_t i = 0; i < n; i += N_LANES) {
            int8_t rest[N_LANES];

            store_levels(rest, lanes_mul(lanes_load_n(x + i, n - i, 0), factor));
            memcpy(q + i, rest, MIN(n - i, N_LANES));
        }
    }
}

static float amax(const float *x, size_t n) {
    Lanes max = lanes_of(0);

    for (size_t i = 0; i < n; i += N_LANES)
        max = greatest(max, lanes_load_n(x + i, n - i, 0));
    return lanes_horizontal_max(max);
}

/**
 * quantize() - quantize one row to symmetric int8
 *
 * scale = amax / 127; q = rint(x (127 / amax)), to nearest even, within +-127. A row so small that 127 / amax overflows
 * (amax below 3.8e-37) counts as all zero: scale 0, q 0. amax ignores NaN, whose level is 127. An infinity counts as
 * the greatest float. Such a row's values are lost, but nothing is undefined.
 */
static float quantize(const float *x, size_t n, float greatest_x, size_t piece_bytes, int8_t *q) {
    if (greatest_x > FLT_MAX)
        greatest_x = FLT_MAX;
    if (!(greatest_x > 0) || 127.0f / greatest_x > FLT_MAX) {
        for (size_t i = 0; i < n; i += INT8_TILE_INPUTS, q += piece_bytes)
            memset(q, 0, INT8_TILE_INPUTS);
        return 0;
    }
    store_row_levels(x, n, piece_bytes, lanes_of(127.0f / greatest_x), q);
    return greatest_x / 127.0f;
}

/**
 * quantize_static() - quantize one row to int8 with a fixed scale
 *
 * q = rint(x (1 / scale)), to nearest even, within +-127. The factor is rounded once, so every machine has the same.
 * NaN becomes 127 and is no outlier.
 */
static size_t quantize_static(const float *x, size_t n, size_t piece_bytes, float scale, int8_t *q) {
    const PartF threshold = part_of(127.0f * scale);
    PartI n_outliers = (PartI){ 0 };
    int32_t counts[LANES_PART];
    size_t sum = 0;

    for (size_t i = 0; i < n; i += N_LANES) {
        Lanes v = lanes_load_n(x + i, n - i, 0);

        EACH_PART (p)
            n_outliers -= (PartI)(part_abs(v.part[p]) > threshold); /* true is -1 */
    }
    store_row_levels(x, n, piece_bytes, lanes_of(1.0f / scale), q);
    memcpy(counts, &n_outliers, sizeof(counts));
    for (size_t i = 0; i < LANES_PART; i++)
        sum += (size_t)counts[i];
    return sum;
}

/* The q of an outlier is +-127. An infinity counts as the greatest float. */
static void outliers(const float *x, size_t n, float scale, uint32_t *channels, float *rests) {
    const float threshold = 127.0f * scale;

    for (size_t i = 0; i < n; i += N_LANES) {
        Lanes v = lanes_load_n(x + i, n - i, 0);
        PartI any = (PartI){ 0 };
        int32_t masks[LANES_PART], is_any = 0;

        EACH_PART (p)
            any |= (PartI)(part_abs(v.part[p]) > part_of(threshold));
        memcpy(masks, &any, sizeof(masks));
        for (size_t lane = 0; lane < LANES_PART; lane++)
            is_any |= masks[lane];
        for (size_t lane = i; is_any && lane < n && lane < i + N_LANES; lane++) {
            float rest;

            if (!(fabsf(x[lane]) > threshold))
                continue;
            rest = x[lane] > 0 ? x[lane] - threshold : x[lane] + threshold;
            rest = rest > FLT_MAX ? FLT_MAX : MAX(-FLT_MAX, rest);
            *channels++ = (uint32_t)lane;
            *rests++ = rest;
        }
    }
}

static void add_column(float rest, const int8_t *w, const float *scales, size_t n, float *y) {
    for (size_t i = 0; i < n; i += N_LANES) {
        Lanes sum = lanes_load_n(y + i, n - i, 0), scale = lanes_load_n(scales + i, n - i, 0);
        int8_t bytes[N_LANES] = { 0 };
        const int8_t *from = w + i;

        if (n - i < N_LANES)
            from = memcpy(bytes, from, n - i);
        EACH_PART (p) {
            PartF weight = __builtin_convertvector(
                __builtin_convertvector(*(const PartBLoose *)(from + p * LANES_PART), PartI), PartF);

            sum.part[p] = sum.part[p] + part_of(rest) * (scale.part[p] * weight);
        }
        lanes_store_n(y + i, n - i, sum);
    }
}

/* Plain loops, like int8_rows_shift(): compilers widen bytes better when they vectorise themselves. */
static void dequantize(const int8_t *restrict q, float factor, size_t n, float *restrict y) {
    for (size_t i = 0; i < n; i++)
        y[i] = (float)q[i] * factor;
}

static int32_t sum_levels(const int8_t *q, size_t n) {
    int32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += q[i];
    return sum;
}

extern const RowOps ROW_OPS_NAME;

#define ROW_OPS_TEXT(name) #name
#define ROW_OPS_STRING(name) ROW_OPS_TEXT(name)

const RowOps ROW_OPS_NAME = {
    .name = ROW_OPS_STRING(ROW_OPS_NAME),
    .need = ROW_OPS_NEED,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .add = add,
    .scale = scale,
    .silu_mul = silu_mul,
    .gelu_mul = gelu_mul,
    .silu = silu,
    .gelu = gelu,
    .rope_norm = rope_norm,
    .rope_neox = rope_neox,
    .hadamard = hadamard,
    .amax = amax,
    .quantize = quantize,
    .quantize_static = quantize_static,
    .outliers = outliers,
    .add_column = add_column,
    .dequantize = dequantize,
    .sum = sum_levels,
    .shift = int8_rows_shift,
    .dot = dot,
};

#endif
