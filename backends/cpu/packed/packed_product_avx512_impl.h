// SPDX-License-Identifier: Apache-2.0
/* Products on packed weights with AVX512-VNNI, compiled once with AVX512-VBMI and once without; the including file
 * defines PACKED_PRODUCT_NAME. */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_PRODUCT_AVX512_IMPL_H
#define COORDGEN_BACKENDS_CPU_PACKED_PRODUCT_AVX512_IMPL_H

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cpu/packed/packed_codes__avx512.h"
#include "backends/cpu/packed/packed_coding.h"
#include "backends/cpu/packed/packed_product.h"
#include "backends/numeric/unroll.h"
#include "base/min_max.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

PackedProduct PACKED_PRODUCT_NAME;

/* 8 rows of one block: a register of codes is expanded once for 8 products. Up to about 8 rows, reading memory takes
 * the time. Panels are built for 1, 2, 4, 6 and 8 rows; for numbers in between, a row is multiplied twice and stored
 * once. */
enum {
    PANEL_ROWS = 8,
    PARTS_MAX = 4,
    AHEAD_BYTES = 4096 /* a page: the machine's own prefetchers don't cross it */
};

/* Offset that makes the levels of a table an unsigned operand. */
#define TABLE_OFFSET 128u

typedef void Panel(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t n_rows, size_t block,
                   float *y, size_t y_stride, size_t ahead_bytes);

/* Turns one row's sums over codes into outputs; y is that row. */
static __attribute__((noinline)) void finish(const PackedWeights *weights, const Int8Rows *rows, size_t row,
                                             size_t block, __m512i sum, float *y) {
    const size_t first = block * INT8_TILE_OUTPUTS, n = weights->n - first;
    const int bits = weights->bits[block];
    const __mmask16 present = n >= INT8_TILE_OUTPUTS ? 0xffff : (__mmask16)((1u << n) - 1);
    const bool has_table = grid_has_table(weights->grid, bits);
    const uint32_t offset = (has_table ? TABLE_OFFSET : (uint32_t)grid_offset(bits)) * (uint32_t)rows->sums[row];
    const __m512i scaled = _mm512_slli_epi32(sum, has_table ? 0 : (unsigned int)grid_factor(bits) - 1);
    __m512 value =
        _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(scaled, _mm512_set1_epi32((int32_t)offset))),
                      _mm512_mul_ps(_mm512_set1_ps(rows->scales[row]), _mm512_loadu_ps(weights->scales + first)));

    if (weights->bias)
        value = _mm512_add_ps(value, _mm512_loadu_ps(weights->bias + first));
    if (weights->channels)
        _mm512_mask_i32scatter_ps(y, present, _mm512_loadu_si512(weights->channels + first), value, sizeof(*y));
    else
        _mm512_mask_storeu_ps(y + first, present, value);
}

/* Computes n_rows <= height rows x 16 outputs. Each sum is kept in n_parts accumulators, so that few rows have enough
 * products under way at once. One loop goes over halves of tiles: the compiler would unroll an inner loop over two of
 * them. */
CODES_INLINE void panel(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t n_rows, size_t block,
                        float *y, size_t y_stride, size_t ahead_bytes, const Grid grid, const int bits,
                        const size_t height, const size_t n_parts) {
    const uint8_t *packed = weights->packed + weights->offsets[block];
    const bool has_table = grid_has_table(grid, bits);
    const int8_t *x[PANEL_ROWS];
    __m512i sum[PARTS_MAX][PANEL_ROWS];
    CodesTable table;

    if (has_table)
        table = codes_table(bits, TABLE_OFFSET);

    UNROLL
    for (size_t r = 0; r < height; r++)
        x[r] = rows->x + (row + (r < n_rows ? r : n_rows - 1)) * rows->stride_bytes;
    UNROLL
    for (size_t part = 0; part < n_parts; part++)
        UNROLL
    for (size_t r = 0; r < height; r++)
        sum[part][r] = _mm512_setzero_si512();
    for (size_t h = 0; h < 2 * weights->k_tiles; h++) {
        const uint8_t *tile = packed + h / 2 * pack_tile_bytes(bits);
        const uint8_t *ahead = tile + h % 2 * (pack_tile_bytes(bits) / 2) + ahead_bytes;

        UNROLL
        for (size_t i = 0; i < pack_tile_bytes(bits) / 2; i += 64) /* may run past the end: a prefetch never faults */
            _mm_prefetch((const char *)ahead + i, _MM_HINT_T0);
        UNROLL
        for (int i = 0; i < CODES_HALF_REGISTERS; i++) {
            const __m512i codes = codes_register(tile, bits, h % 2, i, 0);
            const __m512i operand = has_table ? codes_levels(&table, codes, bits) : codes;
            const size_t part = (size_t)i % n_parts;

            UNROLL
            for (size_t r = 0; r < height; r++) {
                int32_t quad;

                memcpy(&quad, x[r] + h * (INT8_TILE_INPUTS / 2) + 4 * i, sizeof(quad));
                sum[part][r] = _mm512_dpbusd_epi32(sum[part][r], operand, _mm512_set1_epi32(quad));
            }
        }
    }
    UNROLL
    for (size_t part = 1; part < n_parts; part++)
        UNROLL
    for (size_t r = 0; r < height; r++)
        sum[0][r] = _mm512_add_epi32(sum[0][r], sum[part][r]);
    UNROLL
    for (size_t r = 0; r < height; r++)
        if (r < n_rows)
            finish(weights, rows, row + r, block, sum[0][r], y + (row + r) * y_stride);
}

#define PANEL(grid, bits, height, n_parts)                                                                             \
    static void panel_##grid##_##bits##_##height(const PackedWeights *weights, const Int8Rows *rows, size_t row,       \
                                                 size_t n_rows, size_t block, float *y, size_t y_stride,               \
                                                 size_t ahead_bytes) {                                                 \
        panel(weights, rows, row, n_rows, block, y, y_stride, ahead_bytes, GRID_##grid, bits, height, n_parts);        \
    }
#define PANELS(grid, bits)                                                                                             \
    PANEL(grid, bits, 1, 4)                                                                                            \
    PANEL(grid, bits, 2, 2)                                                                                            \
    PANEL(grid, bits, 4, 1)                                                                                            \
    PANEL(grid, bits, 6, 1)                                                                                            \
    PANEL(grid, bits, 8, 1)
PACKED_CODINGS(PANELS)

#define PANELS_OF(grid, bits)                                                                                          \
    [PACKED_CODING(GRID_##grid, bits)] = {                                                                             \
        panel_##grid##_##bits##_1, panel_##grid##_##bits##_2, panel_##grid##_##bits##_4, panel_##grid##_##bits##_4,    \
        panel_##grid##_##bits##_6, panel_##grid##_##bits##_6, panel_##grid##_##bits##_8, panel_##grid##_##bits##_8,    \
    },
/* Functions by coding, rows - 1. */
static Panel *const panels[PACKED_CODINGS_N][PANEL_ROWS] = { PACKED_CODINGS(PANELS_OF) };

/**
 * packed_product__avx512vnni(), packed_product__avx512vnnivbmi() - multiply with vpdpbusd, expanding codes in registers
 *
 * Codes are the unsigned operand. A single stream through memory, block after block, reads fastest. A single panel of
 * rows prefetches the next bytes of the stream. With several panels, the last one prefetches the next block while the
 * others find theirs in the cache.
 */
void PACKED_PRODUCT_NAME(const PackedWeights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                         float *y, size_t y_stride) {
    assert(rows->tile_rows == 1 && rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS);
    assert(weights->k <= INT8_K_MAX && rows->sums);
    for (size_t block = block_begin; block < block_end; block++) {
        const size_t block_bytes = weights->offsets[block + 1] - weights->offsets[block];
        Panel *const *by_rows = panels[packed_coding(weights->grid, weights->bits[block])];

        for (size_t row = 0, n; row < rows->rows; row += n) {
            const size_t left = rows->rows - row;
            const size_t ahead_bytes = rows->rows <= PANEL_ROWS ? AHEAD_BYTES : left <= PANEL_ROWS ? block_bytes : 0;

            n = MIN(left, PANEL_ROWS);
            by_rows[n - 1](weights, rows, row, n, block, y, y_stride, ahead_bytes);
        }
    }
}

#endif
