// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "backends/cpu/int8/int8_product.h"
#include "backends/cpu/int8/neon_dot.h"
#include "backends/numeric/unroll.h"
#include "base/min_max.h"

Int8Product int8_product__i8mm, int8_product__neondot;

/* 3 pairs of rows x 8 pairs of channels take 24 accumulators. */
enum {
    PANEL_PAIRS = 3
};

typedef void Panel(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t n_rows, size_t block, float *y,
                   size_t y_stride);

/* Loads 8 inputs of two rows; the last row of an odd number stands for both. */
NEON_INLINE int8x16_t load_pair(const int8_t *x, size_t to_second) {
    return vcombine_s8(vld1_s8(x), vld1_s8(x + to_second));
}

/* Computes 2 * n_pairs rows x 16 outputs, or one row less. SMMLA wants 8 consecutive inputs of a channel, and the tiles
 * have 4. Two registers of the same channels and neighbouring inputs are therefore zipped by fours. */
NEON_INLINE void panel(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t n_rows, size_t block,
                       float *y, size_t y_stride, const size_t n_pairs) {
    const size_t stride = rows->stride_bytes, first = block * INT8_TILE_OUTPUTS, n = weights->n - first;
    const size_t last_second = n_rows % 2 ? 0 : stride;
    const int8_t *w = weights->tiles + block * weights->k_tiles * INT8_TILE_BYTES, *x = rows->x + row * stride;
    int32x4_t sum[PANEL_PAIRS][8]; /* [row of the pair][channel of the pair] */

    UNROLL
    for (size_t p = 0; p < n_pairs; p++)
        UNROLL
    for (size_t c = 0; c < 8; c++)
        sum[p][c] = vdupq_n_s32(0);
    for (size_t i = 0; i < stride; i += 8, x += 8, w += 2 * INT8_TILE_OUTPUTS * 4) {
        int8x16_t inputs[PANEL_PAIRS];

        UNROLL
        for (size_t p = 0; p < n_pairs; p++)
            inputs[p] = load_pair(x + 2 * p * stride, p + 1 < n_pairs ? stride : last_second);
        UNROLL
        for (size_t c = 0; c < 4; c++) {
            /* A barrier keeps loads in place: the compiler would load all weights at once and run out of registers. */
            __asm__ volatile("" : : : "memory");

            const int32x4_t w0 = vreinterpretq_s32_s8(vld1q_s8(w + 16 * c)),
                            w1 = vreinterpretq_s32_s8(vld1q_s8(w + INT8_TILE_OUTPUTS * 4 + 16 * c));
            const int8x16_t lower = vreinterpretq_s8_s32(vzip1q_s32(w0, w1)),
                            upper = vreinterpretq_s8_s32(vzip2q_s32(w0, w1));

            UNROLL
            for (size_t p = 0; p < n_pairs; p++) {
                sum[p][2 * c] = vmmlaq_s32(sum[p][2 * c], inputs[p], lower);
                sum[p][2 * c + 1] = vmmlaq_s32(sum[p][2 * c + 1], inputs[p], upper);
            }
        }
    }
    UNROLL
    for (size_t p = 0; p < n_pairs; p++)
        UNROLL
    for (size_t c = 0; c < 4; c++)
        for (size_t r = 0; r < 2 && 2 * p + r < n_rows && 4 * c < n; r++) {
            const int64x2_t lower = vreinterpretq_s64_s32(sum[p][2 * c]),
                            upper = vreinterpretq_s64_s32(sum[p][2 * c + 1]);
            const int32x4_t total = vreinterpretq_s32_s64(r ? vzip2q_s64(lower, upper) : vzip1q_s64(lower, upper));
            const size_t o = first + 4 * c, at = row + 2 * p + r;

            dot_store(
                y + at * y_stride + o, n - 4 * c,
                dot_scaled(total, rows->scales[at], weights->scales + o, weights->bias ? weights->bias + o : NULL));
        }
}

#define PANEL(n_pairs)                                                                                                 \
    static void panel_##n_pairs(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t n_rows,           \
                                size_t block, float *y, size_t y_stride) {                                             \
        panel(weights, rows, row, n_rows, block, y, y_stride, n_pairs);                                                \
    }
PANEL(1)
PANEL(2)
PANEL(3)

static Panel *const panels[PANEL_PAIRS] = { panel_1, panel_2, panel_3 };

/**
 * int8_product__i8mm() - multiply with SMMLA: 2 rows x 2 channels x 8 inputs, 32 products per instruction
 *
 * A block of weights is read once from memory and stays cached while all rows pass over it in panels of nearly as many
 * pairs. A single row is left to SDOT, because it could not use the second half of the products.
 */
void int8_product__i8mm(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                        float *y, size_t y_stride, void *scratch) {
    const size_t n_pairs = (rows->rows + 1) / 2, n_panels = (n_pairs + PANEL_PAIRS - 1) / PANEL_PAIRS;

    assert(rows->tile_rows == 1 && rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS);
    assert(weights->k <= INT8_K_MAX);
    if (rows->rows == 1) {
        int8_product__neondot(weights, rows, block_begin, block_end, y, y_stride, scratch);
        return;
    }
    for (size_t block = block_begin; block < block_end; block++)
        for (size_t p = 0, pair = 0, next; p < n_panels; p++, pair = next) {
            next = n_pairs * (p + 1) / n_panels;
            panels[next - pair - 1](weights, rows, 2 * pair, MIN(2 * next, rows->rows) - 2 * pair, block, y, y_stride);
        }
}
