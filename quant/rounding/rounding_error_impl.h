// SPDX-License-Identifier: Apache-2.0
/* The rounding error, compiled once for each instruction set: the including file defines ROUNDING_ERROR_NAME and has
 * the flags of its suffix. All builds give the same bits: every operation stays in one lane, sums run in 16 lanes by
 * index mod 16, in float32 over 1024 weights and in float64 beyond, and nothing is contracted. */
#ifndef COORDGEN_QUANT_ROUNDING_ERROR_IMPL_H
#define COORDGEN_QUANT_ROUNDING_ERROR_IMPL_H

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "quant/format/grid.h"
#include "quant/rounding/rounding_error.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#define N_PART 16
#define PART_MIN(a, b) ((Part)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define PART_LOOKUP(table, index) ((Part)_mm512_i32gather_ps((__m512i)(index), table, 4))
#elif defined(__AVX2__)
#include <immintrin.h>
#define N_PART 8
#define PART_MIN(a, b) ((Part)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define PART_LOOKUP(table, index) ((Part)_mm256_i32gather_ps(table, (__m256i)(index), 4))
#elif defined(__SSE2__)
#include <emmintrin.h>
#define N_PART 4
#define PART_MIN(a, b) ((Part)_mm_min_ps((__m128)(a), (__m128)(b)))
#elif defined(__aarch64__)
#include <arm_neon.h>
#define N_PART 4
#define PART_MIN(a, b) ((Part)vminq_f32((float32x4_t)(a), (float32x4_t)(b)))
#else
#define N_PART 4
#define PART_MIN(a, b) ((Part)(((a) < (b) & (PartInt)(a)) | (~((a) < (b)) & (PartInt)(b))))
#endif
#ifndef PART_LOOKUP
#define PART_LOOKUP(table, index)                                                                                      \
    ((Part){ (table)[(index)[0]], (table)[(index)[1]], (table)[(index)[2]], (table)[(index)[3]] })
#endif

enum {
    N_LANES = 16,
    N_PARTS = N_LANES / N_PART,
    N_FLOAT = 1024 /* float32 keeps a relative error near 1e-6 over the 64 terms of a lane */
};

typedef float Part __attribute__((vector_size(N_PART * 4)));
typedef int32_t PartInt __attribute__((vector_size(N_PART * 4)));
typedef Part PartLoose __attribute__((aligned(4), may_alias));

#define KERNEL_INLINE static inline __attribute__((always_inline))
/* Both compilers keep arrays of accumulators in registers with these. */
#if defined(__clang__)
#define EACH_PART(p) _Pragma("clang loop unroll(full)") for (int p = 0; p < N_PARTS; p++)
#else
#define EACH_PART(p) _Pragma("GCC unroll 4") for (int p = 0; p < N_PARTS; p++)
#endif

typedef struct Channel {
    float to_distance;    /* 1 / distance of two levels */
    float top;            /* the largest r, without its half */
    const float *nearest; /* from grid_nearest() */
    bool is_int8, has_table, products;
} Channel;

typedef struct LaneSums {
    Part error[N_PARTS], tr[N_PARTS], rr[N_PARTS], beyond[N_PARTS];
} LaneSums;

KERNEL_INLINE Part part_of(float value) {
    return value - (Part){ 0 };
}

/* Adds 16 weights, rounded like round_level(), without their signs. */
KERNEL_INLINE void add_lanes(LaneSums *sums, const float *w, const Channel channel) {
    EACH_PART (p) {
        const Part x = *(const PartLoose *)(w + p * N_PART);
        const Part t = (Part)((PartInt)x & 0x7fffffff) * part_of(channel.to_distance);
        const Part shifted = channel.has_table ? t + t : channel.is_int8 ? t + part_of(0.5f) : t;
        const Part most = part_of(channel.has_table ? GRID_NEAREST_CELLS - 1 : channel.top);
        const PartInt whole = __builtin_convertvector(PART_MIN(shifted, most), PartInt);
        Part r, e, error;

        if (channel.has_table)
            r = PART_LOOKUP(channel.nearest, whole);
        else
            r = __builtin_convertvector(whole, Part) + part_of(channel.is_int8 ? 0 : 0.5f);
        e = t - r;
        error = e * e;
        sums->error[p] += error;
        if (channel.has_table)
            sums->beyond[p] += (Part)((PartInt)error & (t > part_of(channel.top)));
        if (channel.products) {
            sums->tr[p] += t * r;
            sums->rr[p] += r * r;
        }
    }
}

/* Adds the last n < 16 weights of a channel; other lanes keep their sums. */
KERNEL_INLINE void add_lanes_n(LaneSums *sums, const float *w, size_t n, const Channel channel) {
    float rest[N_LANES] = { 0 };
    LaneSums added = *sums;

    memcpy(rest, w, n * sizeof(*w));
    add_lanes(&added, rest, channel);
    memcpy(sums->error, added.error, n * sizeof(float));
    memcpy(sums->tr, added.tr, n * sizeof(float));
    memcpy(sums->rr, added.rr, n * sizeof(float));
    memcpy(sums->beyond, added.beyond, n * sizeof(float));
}

KERNEL_INLINE void add_channel(const float *w, size_t n, const Channel channel, RoundingSums *total) {
    float error[N_LANES], tr[N_LANES], rr[N_LANES], beyond[N_LANES];
    double lanes[4][N_LANES] = { { 0 } };

    for (size_t start = 0; start < n; start += N_FLOAT) {
        const size_t end = n - start < N_FLOAT ? n : start + N_FLOAT;
        LaneSums sums = { 0 };
        size_t i = start;

        for (; i + N_LANES <= end; i += N_LANES)
            add_lanes(&sums, w + i, channel);
        if (i < end)
            add_lanes_n(&sums, w + i, end - i, channel);
        memcpy(error, sums.error, sizeof(error));
        memcpy(tr, sums.tr, sizeof(tr));
        memcpy(rr, sums.rr, sizeof(rr));
        memcpy(beyond, sums.beyond, sizeof(beyond));
        for (size_t j = 0; j < N_LANES; j++) {
            lanes[0][j] += (double)error[j];
            lanes[1][j] += (double)tr[j];
            lanes[2][j] += (double)rr[j];
            lanes[3][j] += (double)beyond[j];
        }
    }
    *total = (RoundingSums){ 0 };
    for (size_t j = 0; j < N_LANES; j++) {
        total->error += lanes[0][j];
        total->tr += lanes[1][j];
        total->rr += lanes[2][j];
        total->beyond += lanes[3][j];
    }
}

RoundingError ROUNDING_ERROR_NAME;

void ROUNDING_ERROR_NAME(const RoundingChannel *channel, float inverse, bool products, RoundingSums *sums) {
    const float *nearest = grid_nearest(channel->grid, channel->bits);
    const bool has_table = nearest, is_int8 = channel->bits == GRID_BITS_MAX;
    const float top = has_table ? (float)grid_max(channel->grid, channel->bits)
                      : is_int8 ? 127
                                : (float)((1 << (channel->bits - 1)) - 1);
    const float to_distance = has_table || is_int8 ? inverse : inverse * 0.5f;

    assert(channel->bits >= GRID_BITS_MIN && channel->bits <= GRID_BITS_MAX);
/* Each case is its own loop with constants folded in. */
#define CASE(has_table_, int8_, products_)                                                                             \
    if (has_table == has_table_ && is_int8 == int8_ && products == products_)                                          \
        add_channel(channel->w, channel->n, (Channel){ to_distance, top, nearest, int8_, has_table_, products_ }, sums);
#define CASES(has_table_, int8_)                                                                                       \
    CASE(has_table_, int8_, false)                                                                                     \
    CASE(has_table_, int8_, true)
    CASES(false, false)
    CASES(false, true)
    CASES(true, false)
#undef CASES
#undef CASE
}

#endif
