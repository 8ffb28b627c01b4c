// SPDX-License-Identifier: Apache-2.0
/* Products on packed weights on NEON, compiled once with SDOT and once without; the including file defines
 * PACKED_PRODUCT_NAME. */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_PRODUCT_NEON_IMPL_H
#define COORDGEN_BACKENDS_CPU_PACKED_PRODUCT_NEON_IMPL_H

#include <assert.h>
#include <stdbool.h>

#include "backends/cpu/int8/neon_dot.h"
#include "backends/cpu/packed/packed_codes__neon.h"
#include "backends/cpu/packed/packed_coding.h"
#include "backends/cpu/packed/packed_product.h"
#include "backends/numeric/unroll.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

PackedProduct PACKED_PRODUCT_NAME;

typedef void Panel(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t block, float *y,
                   size_t y_stride);

/* Returns a signed operand. Codes of up to 7 bits are signed already. Codes of 8 bits become levels, u - 128, at once,
 * and codes with a table become its levels. */
CODES_INLINE int8x16_t operand(const CodesTable *table, const uint8_t *tile, int bits, size_t half, int i,
                               int quarter) {
    const uint8x16_t codes = codes_register(tile, bits, half, i, quarter);

    if (table)
        return codes_levels(table, codes, bits);
    return vreinterpretq_s8_u8(bits == GRID_BITS_MAX ? codes ^ (uint8_t)grid_offset(GRID_BITS_MAX) : codes);
}

/* Stores outputs of 4 positions from p, as many as there are; y is the row. */
NEON_INLINE void finish(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t p, int32x4_t sum,
                        float *y, const Grid grid, const int bits) {
    const bool is_level = bits == GRID_BITS_MAX || grid_has_table(grid, bits);
    const uint32_t offset = is_level ? 0 : (uint32_t)grid_offset(bits) * (uint32_t)rows->sums[row];
    const int32x4_t scaled = (int32x4_t)((uint32x4_t)sum << (is_level ? 0 : grid_factor(bits) - 1));
    const float32x4_t value = dot_scaled((int32x4_t)((uint32x4_t)scaled - offset), rows->scales[row],
                                         weights->scales + p, weights->bias ? weights->bias + p : NULL);
    float values[4];

    if (p >= weights->n)
        return;
    if (!weights->channels) {
        dot_store(y + p, weights->n - p, value);
        return;
    }
    vst1q_f32(values, value);
    for (size_t i = 0; i < 4 && p + i < weights->n; i++)
        y[weights->channels[p + i]] = values[i];
}

/* Computes n_rows x 16 outputs: 4 registers of codes at a time are multiplied with 16 inputs of each row. */
CODES_INLINE void panel(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t block, float *y,
                        size_t y_stride, const Grid grid, const int bits, const size_t n_rows) {
    const size_t stride = rows->stride_bytes;
    const uint8_t *packed = weights->packed + weights->offsets[block];
    const int8_t *x = rows->x + row * stride;
    DotSum sum[DOT_ROWS][4];
    CodesTable made;
    const CodesTable *table = NULL;

    if (grid_has_table(grid, bits)) {
        made = codes_table(bits);
        table = &made;
    }

    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (int c = 0; c < 4; c++)
        sum[r][c] = dot_zero();
    for (size_t h = 0; h < 2 * weights->k_tiles; h++) {
        const uint8_t *tile = packed + h / 2 * pack_tile_bytes(bits);

        UNROLL
        for (int first = 0; first < CODES_HALF_REGISTERS; first += 4, x += 16) {
            int8x16_t inputs[DOT_ROWS];

            UNROLL
            for (size_t r = 0; r < n_rows; r++)
                inputs[r] = vld1q_s8(x + r * stride);
            UNROLL
            for (int c = 0; c < 4; c++) {
                /* A barrier keeps loads in place: the compiler would load everything at once and run out of
                 * registers. */
                __asm__ volatile("" : : : "memory");
                UNROLL
                for (int quad = 0; quad < 4; quad += 2) {
                    const int8x16_t w0 = operand(table, tile, bits, h % 2, first + quad, c),
                                    w1 = operand(table, tile, bits, h % 2, first + quad + 1, c);

                    UNROLL
                    for (size_t r = 0; r < n_rows; r++)
                        sum[r][c] = dot_two_quads(sum[r][c], w0, w1, inputs[r], quad);
                }
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (int c = 0; c < 4; c++)
        finish(weights, rows, row + r, block * INT8_TILE_OUTPUTS + 4 * (size_t)c, dot_total(sum[r][c]),
               y + (row + r) * y_stride, grid, bits);
}

#define PANEL(grid, bits, n_rows)                                                                                      \
    static void panel_##grid##_##bits##_##n_rows(const PackedWeights *weights, const Int8Rows *rows, size_t row,       \
                                                 size_t block, float *y, size_t y_stride) {                            \
        panel(weights, rows, row, block, y, y_stride, GRID_##grid, bits, n_rows);                                      \
    }
#if defined(__ARM_FEATURE_DOTPROD)
#define PANELS(grid, bits) PANEL(grid, bits, 1) PANEL(grid, bits, 2) PANEL(grid, bits, 3) PANEL(grid, bits, 4)
#define PANELS_OF(grid, bits)                                                                                          \
    [PACKED_CODING(GRID_##grid, bits)] = { panel_##grid##_##bits##_1, panel_##grid##_##bits##_2,                       \
                                           panel_##grid##_##bits##_3, panel_##grid##_##bits##_4 },
#else
#define PANELS(grid, bits) PANEL(grid, bits, 1) PANEL(grid, bits, 2)
#define PANELS_OF(grid, bits)                                                                                          \
    [PACKED_CODING(GRID_##grid, bits)] = { panel_##grid##_##bits##_1, panel_##grid##_##bits##_2 },
#endif
PACKED_CODINGS(PANELS)

/* Functions by coding, rows - 1. */
static Panel *const panels[PACKED_CODINGS_N][DOT_ROWS] = { PACKED_CODINGS(PANELS_OF) };

/**
 * packed_product__neondot(), packed_product__neon() - multiply codes or levels, expanded in registers
 *
 * Operands are signed. A single stream through memory goes block after block. A block is expanded
 * once for a panel of rows.
 */
void PACKED_PRODUCT_NAME(const PackedWeights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                         float *y, size_t y_stride) {
    const size_t n_panels = (rows->rows + DOT_ROWS - 1) / DOT_ROWS;

    assert(rows->tile_rows == 1 && rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS);
    assert(weights->k <= INT8_K_MAX && rows->sums);
    for (size_t block = block_begin; block < block_end; block++) {
        Panel *const *by_rows = panels[packed_coding(weights->grid, weights->bits[block])];

        for (size_t p = 0, row = 0, next; p < n_panels; p++, row = next) {
            next = rows->rows * (p + 1) / n_panels;
            by_rows[next - row - 1](weights, rows, row, block, y, y_stride);
        }
    }
}

#endif
