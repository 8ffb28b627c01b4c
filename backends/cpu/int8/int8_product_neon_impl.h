// SPDX-License-Identifier: Apache-2.0
/* int8 products on NEON, compiled once with SDOT and once without; the including file defines INT8_PRODUCT_NAME. */
#ifndef COORDGEN_BACKENDS_CPU_INT8_PRODUCT_NEON_IMPL_H
#define COORDGEN_BACKENDS_CPU_INT8_PRODUCT_NEON_IMPL_H

#include <assert.h>

#include "backends/cpu/int8/int8_product.h"
#include "backends/cpu/int8/neon_dot.h"
#include "backends/numeric/unroll.h"

typedef void Panel(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t block, float *y,
                   size_t y_stride);

/* Computes n_rows x 16 outputs. A register of weights is 4 channels x 4 inputs, and a lane of x is 4 inputs of a
 * row. */
NEON_INLINE void panel(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t block, float *y,
                       size_t y_stride, const size_t n_rows) {
    const size_t stride = rows->stride_bytes, first = block * INT8_TILE_OUTPUTS, n = weights->n - first;
    const int8_t *w = weights->tiles + block * weights->k_tiles * INT8_TILE_BYTES, *x = rows->x + row * stride;
    DotSum sum[DOT_ROWS][4];

    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t c = 0; c < 4; c++)
        sum[r][c] = dot_zero();
    for (size_t i = 0; i < stride; i += 16, x += 16) {
        int8x16_t inputs[DOT_ROWS];

        UNROLL
        for (size_t r = 0; r < n_rows; r++)
            inputs[r] = vld1q_s8(x + r * stride);
        UNROLL
        for (int quad = 0; quad < 4; quad += 2, w += 2 * INT8_TILE_OUTPUTS * 4)
            UNROLL
        for (size_t c = 0; c < 4; c++) {
            /* A barrier keeps loads in place: the compiler would load everything at once and run out of registers. */
            __asm__ volatile("" : : : "memory");

            const int8x16_t w0 = vld1q_s8(w + 16 * c), w1 = vld1q_s8(w + INT8_TILE_OUTPUTS * 4 + 16 * c);

            UNROLL
            for (size_t r = 0; r < n_rows; r++)
                sum[r][c] = dot_two_quads(sum[r][c], w0, w1, inputs[r], quad);
        }
    }
    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t c = 0; c < 4; c++)
        if (4 * c < n) {
            const size_t o = first + 4 * c;

            dot_store(y + (row + r) * y_stride + o, n - 4 * c,
                      dot_scaled(dot_total(sum[r][c]), rows->scales[row + r], weights->scales + o,
                                 weights->bias ? weights->bias + o : NULL));
        }
}

#define PANEL(n_rows)                                                                                                  \
    static void panel_##n_rows(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t block, float *y,   \
                               size_t y_stride) {                                                                      \
        panel(weights, rows, row, block, y, y_stride, n_rows);                                                         \
    }
PANEL(1)
PANEL(2)
#if defined(__ARM_FEATURE_DOTPROD)
PANEL(3)
PANEL(4)
static Panel *const panels[DOT_ROWS] = { panel_1, panel_2, panel_3, panel_4 };
#else
static Panel *const panels[DOT_ROWS] = { panel_1, panel_2 };
#endif

Int8Product INT8_PRODUCT_NAME;

/**
 * int8_product__neondot(), int8_product__neon() - multiply with SDOT, or SMULL, SMLAL and SADALP
 *
 * SDOT makes 16 products per instruction. A block of weights is read once from memory and stays cached while all rows
 * pass over it in panels of nearly equal height.
 */
void INT8_PRODUCT_NAME(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end, float *y,
                       size_t y_stride, void *scratch) {
    const size_t n_panels = (rows->rows + DOT_ROWS - 1) / DOT_ROWS;

    assert(rows->tile_rows == 1 && rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS);
    assert(weights->k <= INT8_K_MAX);
    for (size_t block = block_begin; block < block_end; block++)
        for (size_t p = 0, row = 0, next; p < n_panels; p++, row = next) {
            next = rows->rows * (p + 1) / n_panels;
            panels[next - row - 1](weights, rows, row, block, y, y_stride);
        }
}

#endif
