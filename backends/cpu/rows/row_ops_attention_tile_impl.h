// SPDX-License-Identifier: Apache-2.0
/* Products of tiles of attention; a part of row_ops_attention.h. */
#ifndef COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_TILE_IMPL_H
#define COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_TILE_IMPL_H

#include <assert.h>
#include <stdbool.h>

#include "backends/numeric/lanes.h"
#include "base/min_max.h"

/* Scores and outputs are both products C[rows][16 lanes] += A[rows][n] B[n][16 lanes] by successive fused multiply-adds
 * along n: queries times keys, weights times values. TILE_ROWS x TILE_LANES sums fit in the registers. */
enum {
    TILE_ROWS = 6,
    TILE_LANES = LANES_PARTS == 1 ? 4 : 1,
};

typedef struct Tile {
    const float *a;
    size_t a_stride;
    const void *b; /* float16 or float32, depending on the function */
    size_t b_stride;
    size_t n;
    float *c;
    size_t c_stride;
    bool is_first;         /* sums begin at 0 instead of C */
    const float *factors;  /* sums begin at row r of C times factors[r]; NULL: at C */
    const uint16_t *ahead; /* float16 only: address of b in the next tile, to be prefetched */
} Tile;

LANES_INLINE void tile_begin(const Tile *tile, const size_t n_rows, const size_t n_lanes,
                             Lanes sum[TILE_ROWS][TILE_LANES]) {
    const size_t c_stride = tile->c_stride;
    const float *c = tile->c, *factors = tile->factors;

    UNROLL
    for (size_t r = 0; r < n_rows; r++) {
        UNROLL
        for (size_t i = 0; i < n_lanes; i++)
            sum[r][i] = tile->is_first ? lanes_of(0) : lanes_load(c + i * N_LANES);
        c += c_stride;
    }
    if (factors)
        UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t i = 0; i < n_lanes; i++)
        sum[r][i] = lanes_mul(sum[r][i], lanes_of(factors[r]));
}

LANES_INLINE void tile_end(float *c, size_t c_stride, const size_t n_rows, const size_t n_lanes,
                           Lanes sum[TILE_ROWS][TILE_LANES]) {
    UNROLL
    for (size_t r = 0; r < n_rows; r++) {
        UNROLL
        for (size_t i = 0; i < n_lanes; i++)
            lanes_store(c + i * N_LANES, sum[r][i]);
        c += c_stride;
    }
}

/* Rows are addressed from two pointers by 0 to 2 strides, for which instructions have an addressing mode. The tile's
 * fields are read before the first store: the compiler must assume that a store changes them. */
LANES_INLINE void tile_run(const Tile *tile, const size_t n_rows, const size_t n_lanes, const bool is_half) {
    const size_t a_stride = tile->a_stride, b_stride = tile->b_stride;
    const uint16_t *half = tile->b, *ahead = tile->ahead;
    const float *full = tile->b, *a = tile->a, *a_end = a + tile->n, *a_high = a + TILE_ROWS / 2 * a_stride;
    Lanes sum[TILE_ROWS][TILE_LANES];

    tile_begin(tile, n_rows, n_lanes, sum);
    for (; a < a_end; a++, a_high++) {
        Lanes b[TILE_LANES];

        UNROLL
        for (size_t i = 0; i < n_lanes; i++)
            b[i] = is_half ? lanes_load_f16(half + i * N_LANES) : lanes_load(full + i * N_LANES);
        if (is_half) {
            UNROLL
            for (size_t i = 0; i < n_lanes; i += 2)
                __builtin_prefetch(ahead + i * N_LANES);
            ahead += b_stride;
        }
        UNROLL
        for (size_t r = 0; r < n_rows; r++) {
            const Lanes value = lanes_of(r < TILE_ROWS / 2 ? a[r * a_stride] : a_high[(r - TILE_ROWS / 2) * a_stride]);

            UNROLL
            for (size_t i = 0; i < n_lanes; i++)
                sum[r][i] = lanes_fma(value, b[i], sum[r][i]);
        }
        half += is_half ? b_stride : 0;
        full += is_half ? 0 : b_stride;
    }
    tile_end(tile->c, tile->c_stride, n_rows, n_lanes, sum);
}

#define TILE_FN(rows, lanes)                                                                                           \
    static void tile_##rows##_##lanes##_half(const Tile *tile) {                                                       \
        tile_run(tile, rows, lanes, true);                                                                             \
    }                                                                                                                  \
    static void tile_##rows##_##lanes##_full(const Tile *tile) {                                                       \
        tile_run(tile, rows, lanes, false);                                                                            \
    }
#define TILE_FNS(lanes)                                                                                                \
    TILE_FN(1, lanes) TILE_FN(2, lanes) TILE_FN(3, lanes) TILE_FN(4, lanes) TILE_FN(5, lanes) TILE_FN(6, lanes)
#define TILE_NAMES(lanes, type)                                                                                        \
    {                                                                                                                  \
        tile_1_##lanes##_##type, tile_2_##lanes##_##type, tile_3_##lanes##_##type, tile_4_##lanes##_##type,            \
            tile_5_##lanes##_##type, tile_6_##lanes##_##type                                                           \
    }

typedef void TileFn(const Tile *tile);

/* Functions by type, lanes - 1, rows - 1. */
#if LANES_PART == 16
TILE_FNS(1);
TILE_FNS(2);
TILE_FNS(3);
TILE_FNS(4);
static TileFn *const tile_fns[2][TILE_LANES][TILE_ROWS] = {
    { TILE_NAMES(1, full), TILE_NAMES(2, full), TILE_NAMES(3, full), TILE_NAMES(4, full) },
    { TILE_NAMES(1, half), TILE_NAMES(2, half), TILE_NAMES(3, half), TILE_NAMES(4, half) },
};
#else
TILE_FNS(1);
static TileFn *const tile_fns[2][TILE_LANES][TILE_ROWS] = { { TILE_NAMES(1, full) }, { TILE_NAMES(1, half) } };
#endif

/* Computes all of C: n_rows <= TILE_ROWS, any number of lanes. The tile is changed. A pointer avoids a copy of the
 * tile: processors can't forward fields stored one by one to the copy's wide loads, and would stall. */
static void tile_all(Tile *tile, size_t n_rows, size_t n_lanes, bool is_half) {
    assert(!is_half || tile->ahead); /* prefetching page 0 would take longer than the products */
    for (size_t left = n_lanes, n; left; left -= n) {
        n = MIN(left, TILE_LANES);
        tile_fns[is_half][n - 1][n_rows - 1](tile);
        tile->c += n * N_LANES;
        tile->ahead += is_half ? n * N_LANES : 0;
        tile->b = is_half ? (const void *)((const uint16_t *)tile->b + n * N_LANES)
                          : (const void *)((const float *)tile->b + n * N_LANES);
    }
}

#endif
