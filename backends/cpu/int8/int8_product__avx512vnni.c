// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <immintrin.h>

#include "backends/cpu/int8/int8_product.h"
#include "backends/numeric/unroll.h"

Int8Product int8_product__avx512vnni;

/* 6 rows x 4 blocks take 24 of 32 registers as accumulators. 10 loads feed 24 products, and loads and products run on
 * different ports. Up to 12 rows, reading the weights takes the time: all rows then pass over one block, and 13 loads
 * for 12 products still keep up with memory. Rows come shifted to unsigned, because shifting here would occupy the
 * products' port for each quad. Each panel is a function of its own with constant counts. */
enum {
    PANEL_ROWS = 6,
    PANEL_BLOCKS = 4,
    STREAM_ROWS = 12,
    AHEAD_BYTES = 8192, /* prefetch distance in a block that is read as a stream; half or twice as much is slower */
};

/* Inline assembly, because gcc 12 copies accumulators around the intrinsics and loses half the speed. */
static inline __attribute__((always_inline)) void add_products(__m512i *sum, __m512i quads, __m512i w) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(quads), "v"(w));
}

static inline __attribute__((always_inline)) __m512i load_quads(const uint8_t *x) {
    __m512i quads;

    __asm__("vpbroadcastd %1, %0" : "=v"(quads) : "m"(*(const uint8_t(*)[4])x));
    return quads;
}

/* Data that a panel prefetches into the second-level cache: `bytes` of `from` with each of its tiles. */
typedef struct Prefetch {
    const int8_t *from;
    size_t bytes;
} Prefetch;

typedef void Panel(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t block, float *y,
                   size_t y_stride, Prefetch ahead);

/* Computes n_rows x n_blocks outputs. Each sum is kept in n_parts accumulators, so that one row of one block has enough
 * products under way at once. */
static inline __attribute__((always_inline)) void panel(const Int8Weights *weights, const Int8Rows *rows, size_t row,
                                                        size_t block, float *y, size_t y_stride, Prefetch ahead,
                                                        const size_t n_rows, const size_t n_blocks,
                                                        const size_t n_parts) {
    const size_t stride = rows->stride_bytes, block_bytes = weights->k_tiles * INT8_TILE_BYTES;
    const int8_t *tiles = weights->tiles + block * block_bytes;
    const uint8_t *x = rows->shifted + row * stride;
    __m512i sum[4][STREAM_ROWS][PANEL_BLOCKS];

    UNROLL
    for (size_t part = 0; part < n_parts; part++)
        UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t b = 0; b < n_blocks; b++)
        sum[part][r][b] = _mm512_setzero_si512();
    for (size_t t = 0; t < weights->k_tiles; t++, tiles += INT8_TILE_BYTES, x += INT8_TILE_INPUTS) {
        for (size_t i = 0; i < ahead.bytes; i += 64) /* may run past the end of the weights: a prefetch never faults */
            _mm_prefetch((const char *)ahead.from + t * ahead.bytes + i, _MM_HINT_T1);
        UNROLL_BY_4
        for (size_t i = 0; i < INT8_TILE_INPUTS; i += 4 * n_parts)
            UNROLL
        for (size_t part = 0; part < n_parts; part++) {
            const size_t input = i + 4 * part;
            __m512i w[PANEL_BLOCKS];

            UNROLL
            for (size_t b = 0; b < n_blocks; b++)
                w[b] = _mm512_load_si512(tiles + b * block_bytes + input * INT8_TILE_OUTPUTS);
            /* one line for each used line: all lines of a tile at once would delay the tile's own loads */
            if (n_blocks == 1)
                _mm_prefetch((const char *)tiles + input * INT8_TILE_OUTPUTS + AHEAD_BYTES, _MM_HINT_T0);
            UNROLL
            for (size_t r = 0; r < n_rows; r++) {
                const __m512i quads = load_quads(x + r * stride + input);

                UNROLL
                for (size_t b = 0; b < n_blocks; b++)
                    add_products(&sum[part][r][b], quads, w[b]);
            }
        }
    }
    UNROLL
    for (size_t part = 1; part < n_parts; part++)
        UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t b = 0; b < n_blocks; b++)
        sum[0][r][b] = _mm512_add_epi32(sum[0][r][b], sum[part][r][b]);
    UNROLL
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t first = (block + b) * INT8_TILE_OUTPUTS, n = weights->n - first;
        const __mmask16 present = n >= INT8_TILE_OUTPUTS ? 0xffff : (__mmask16)((1u << n) - 1);
        const __m512 scale = _mm512_loadu_ps(weights->scales + first);
        /* sum (x + 128) w = sum x w + 128 sum w. The sums may wrap modulo 2^32 on the way; the end value is within
         * int32. */
        const __m512i shifted = _mm512_slli_epi32(_mm512_loadu_si512(weights->sums + first), 7);

        UNROLL
        for (size_t r = 0; r < n_rows; r++) {
            __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum[0][r][b], shifted)),
                                         _mm512_mul_ps(_mm512_set1_ps(rows->scales[row + r]), scale));

            if (weights->bias)
                value = _mm512_add_ps(value, _mm512_loadu_ps(weights->bias + first));
            _mm512_mask_storeu_ps(y + (row + r) * y_stride + first, present, value);
        }
    }
}

#define PANEL(n_rows, n_blocks, n_parts)                                                                               \
    static void panel_##n_rows##x##n_blocks(const Int8Weights *weights, const Int8Rows *rows, size_t row,              \
                                            size_t block, float *y, size_t y_stride, Prefetch ahead) {                 \
        panel(weights, rows, row, block, y, y_stride, ahead, n_rows, n_blocks, n_parts);                               \
    }
PANEL(1, 1, 4)
PANEL(2, 1, 2)
PANEL(3, 1, 2)
PANEL(4, 1, 1)
PANEL(5, 1, 1)
PANEL(6, 1, 1)
PANEL(7, 1, 1)
PANEL(8, 1, 1)
PANEL(9, 1, 1)
PANEL(10, 1, 1)
PANEL(11, 1, 1)
PANEL(12, 1, 1)
PANEL(4, 4, 1)
PANEL(5, 4, 1)
PANEL(6, 4, 1)

/* Functions by rows - 1. */
static Panel *const stream_panels[STREAM_ROWS] = {
    panel_1x1, panel_2x1, panel_3x1, panel_4x1,  panel_5x1,  panel_6x1,
    panel_7x1, panel_8x1, panel_9x1, panel_10x1, panel_11x1, panel_12x1,
};
/* Panels of nearly equal height for more than 12 rows; none has fewer than 4 rows. */
static Panel *const wide_panels[PANEL_ROWS] = { [3] = panel_4x4, [4] = panel_5x4, [5] = panel_6x4 };

static inline size_t panels_for(size_t rows, size_t panel_rows) {
    return (rows + panel_rows - 1) / panel_rows;
}

/* Returns the bytes to prefetch with each tile if n_panels share them, in whole lines. */
static inline size_t share_of(size_t tile_bytes, size_t n_panels) {
    return (tile_bytes / 64 + n_panels - 1) / n_panels * 64;
}

/* Multiplies block after block: one stream through memory reads fastest. */
static void stream(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end, float *y,
                   size_t y_stride) {
    const size_t n_panels = panels_for(rows->rows, STREAM_ROWS), n_all = n_panels * (block_end - block_begin);
    Prefetch ahead = { weights->next ? weights->next : weights->tiles, 0 };

    if (weights->next && n_all)
        ahead.bytes = share_of(weights->next_bytes / weights->k_tiles, n_all);
    for (size_t block = block_begin; block < block_end; block++)
        for (size_t p = 0, row = 0, next; p < n_panels; p++, row = next) {
            next = rows->rows * (p + 1) / n_panels;
            stream_panels[next - row - 1](weights, rows, row, block, y, y_stride, ahead);
            ahead.from += ahead.bytes * weights->k_tiles;
        }
}

/* Multiplies by 4 blocks, which stay in the second-level cache while all rows pass over them. Each panel of rows
 * prefetches its share of the next blocks, tile_share bytes with each tile, so that memory is read during the
 * products. */
static void pass_over(const Int8Weights *weights, const Int8Rows *rows, size_t block, float *y, size_t y_stride,
                      const int8_t *following, size_t tile_share) {
    const size_t n_panels = panels_for(rows->rows, PANEL_ROWS);
    Prefetch ahead = { following, share_of(tile_share, n_panels) };

    for (size_t p = 0, row = 0, next; p < n_panels; p++, row = next) {
        next = rows->rows * (p + 1) / n_panels;
        if (p * ahead.bytes >= tile_share) /* the lines of a tile are not divisible by the panels */
            ahead.bytes = 0;
        wide_panels[next - row - 1](weights, rows, row, block, y, y_stride, ahead);
        ahead.from += ahead.bytes * weights->k_tiles;
    }
}

/* Multiplies with vpdpbusd: 64 products per instruction. */
void int8_product__avx512vnni(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                              float *y, size_t y_stride, void *scratch) {
    const size_t group_bytes = PANEL_BLOCKS * weights->k_tiles * INT8_TILE_BYTES;
    size_t block = block_begin;

    assert(rows->tile_rows == 1 && rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS);
    assert(weights->k <= INT8_K_MAX && rows->shifted);
    for (; rows->rows > STREAM_ROWS && block_end - block >= PANEL_BLOCKS; block += PANEL_BLOCKS) {
        const int8_t *following = weights->tiles + block * group_bytes / PANEL_BLOCKS + group_bytes;
        size_t tile_share = 0;

        if (block_end - block >= 2 * PANEL_BLOCKS) {
            tile_share = PANEL_BLOCKS * INT8_TILE_BYTES;
        } else if (block + PANEL_BLOCKS == block_end && weights->next) {
            following = weights->next;
            tile_share = weights->next_bytes / weights->k_tiles;
        }
        pass_over(weights, rows, block, y, y_stride, following, tile_share);
    }
    stream(weights, rows, block, block_end, y, y_stride);
}
