// SPDX-License-Identifier: Apache-2.0
/* Source of every build of float_loops.h. The including file names the build and is compiled for its instruction set.
 *
 * A product has 16 partial sums, by input index mod 16, added up in a tree: i and i + 8, then i + 4, i + 2, i + 1. Each
 * step is a multiplication and an addition, both rounded, so the width of the machine's registers does not change a
 * bit. A tile of outputs x rows keeps its sums in registers, so that each loaded value is used several times. */
#ifndef COORDGEN_BACKENDS_REFERENCE_FLOAT_LOOPS_IMPL_H
#define COORDGEN_BACKENDS_REFERENCE_FLOAT_LOOPS_IMPL_H

#include "backends/reference/float_loops.h"

#include "backends/numeric/unroll.h"
#include "base/system/cpu.h"

#define SUMS 16
#if defined(__AVX512F__)
enum {
    WIDTH = 16,
    TILE_OUTPUTS = 4,
    TILE_ROWS = 4
}; /* sums take 16 of 32 registers */
#elif defined(__AVX2__)
enum {
    WIDTH = 8,
    TILE_OUTPUTS = 2,
    TILE_ROWS = 2
}; /* sums take 8 of 16 registers */
#else
enum {
    WIDTH = 4,
    TILE_OUTPUTS = 2,
    TILE_ROWS = 1
}; /* sums take 8 of 16 registers */
#endif
enum {
    PARTS = SUMS / WIDTH
};

typedef float Part __attribute__((vector_size(WIDTH * 4)));
typedef float Quad __attribute__((vector_size(16)));
#if defined(__AVX2__)
typedef float Half __attribute__((vector_size(32)));
#endif
typedef Part LoosePart __attribute__((aligned(4), may_alias));

#define ALWAYS static inline __attribute__((always_inline))

ALWAYS float add_up(const Part *sums) {
    Quad quad;

#if defined(__AVX512F__)
    Half half = __builtin_shufflevector(sums[0], sums[0], 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(sums[0], sums[0], 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(__AVX2__)
    Half half = sums[0] + sums[1];
#endif
#if defined(__AVX512F__) || defined(__AVX2__)
    quad = __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
#else
    quad = (sums[0] + sums[2]) + (sums[1] + sums[3]);
#endif
    return (quad[0] + quad[2]) + (quad[1] + quad[3]);
}

/* Adds the inputs past the last multiple of 16 on a copy of the sums, so that the originals stay in registers. */
static __attribute__((noinline)) float add_up_with_rest(const Part *sums, const float *x, const float *w, size_t n) {
    Part lanes[PARTS];

    for (size_t p = 0; p < PARTS; p++)
        lanes[p] = sums[p];
    for (size_t i = 0; i < n; i++)
        lanes[i / WIDTH][i % WIDTH] += x[i] * w[i];
    return add_up(lanes);
}

/* `outputs` and `rows` are constants in every call. */
ALWAYS void tile(const float *x, size_t x_stride, int rows, const float *w, size_t w_stride, int outputs, size_t k,
                 float *y, size_t y_stride) {
    Part sums[TILE_ROWS][TILE_OUTPUTS][PARTS] = { 0 };
    size_t i = 0;

    for (; i + SUMS <= k; i += SUMS)
        UNROLL for (int p = 0; p < PARTS; p++) {
            Part weights[TILE_OUTPUTS];

            UNROLL for (int o = 0; o < outputs; o++) weights[o] =
                *(const LoosePart *)(w + (size_t)o * w_stride + i + p * WIDTH);
            UNROLL for (int r = 0; r < rows; r++) {
                Part values = *(const LoosePart *)(x + (size_t)r * x_stride + i + p * WIDTH);

                UNROLL for (int o = 0; o < outputs; o++) sums[r][o][p] += values * weights[o];
            }
        }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int o = 0; o < outputs; o++) {
        float *to = y + (size_t)r * y_stride + (size_t)o;

        if (__builtin_expect(i == k, 1)) {
            *to = add_up(sums[r][o]);
        } else {
            Part copy[PARTS];

            UNROLL for (int p = 0; p < PARTS; p++) copy[p] = sums[r][o][p];
            *to = add_up_with_rest(copy, x + (size_t)r * x_stride + i, w + (size_t)o * w_stride + i, k - i);
        }
    }
}

static void products(const float *x, size_t x_stride, size_t rows, const float *w, size_t w_stride, size_t n, size_t k,
                     float *y, size_t y_stride) {
    size_t r = 0, o;

    for (; r + TILE_ROWS <= rows; r += TILE_ROWS) {
        for (o = 0; o + TILE_OUTPUTS <= n; o += TILE_OUTPUTS)
            tile(x + r * x_stride, x_stride, TILE_ROWS, w + o * w_stride, w_stride, TILE_OUTPUTS, k,
                 y + r * y_stride + o, y_stride);
        for (; o < n; o++)
            tile(x + r * x_stride, x_stride, TILE_ROWS, w + o * w_stride, w_stride, 1, k, y + r * y_stride + o,
                 y_stride);
    }
    for (; r < rows; r++) {
        for (o = 0; o + TILE_OUTPUTS <= n; o += TILE_OUTPUTS)
            tile(x + r * x_stride, x_stride, 1, w + o * w_stride, w_stride, TILE_OUTPUTS, k, y + r * y_stride + o,
                 y_stride);
        for (; o < n; o++)
            tile(x + r * x_stride, x_stride, 1, w + o * w_stride, w_stride, 1, k, y + r * y_stride + o, y_stride);
    }
}

static void mix(const float *weights, size_t n, const float *v, size_t v_stride, size_t width, bool is_first,
                float *y) {
    enum {
        AT_ONCE = 4
    };
    size_t i = 0;

    for (; i + AT_ONCE * WIDTH <= width; i += AT_ONCE * WIDTH) {
        Part sums[AT_ONCE] = { 0 };

        if (!is_first)
            UNROLL for (int p = 0; p < AT_ONCE; p++) sums[p] = *(const LoosePart *)(y + i + p * WIDTH);
        for (size_t j = 0; j < n; j++)
            UNROLL for (int p = 0; p < AT_ONCE; p++) sums[p] +=
                weights[j] * *(const LoosePart *)(v + j * v_stride + i + p * WIDTH);
        UNROLL for (int p = 0; p < AT_ONCE; p++) * (LoosePart *)(y + i + p * WIDTH) = sums[p];
    }
    for (; i < width; i++) {
        float sum = is_first ? 0 : y[i];

        for (size_t j = 0; j < n; j++)
            sum += weights[j] * v[j * v_stride + i];
        y[i] = sum;
    }
}

const FloatLoops FLOAT_LOOPS_NAME = {
    .name = FLOAT_LOOPS_TEXT,
    .need = FLOAT_LOOPS_NEED,
    .products = products,
    .mix = mix,
};

#endif
