// SPDX-License-Identifier: Apache-2.0
/* The integer products of attention with SDOT: 16 products an instruction. products_scalar.h says what they compute. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_NEONDOT_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_NEONDOT_H

#include "backends/cpu/attention/products_sdot.h"
#include "backends/cpu/attention/products_values_neon.h"

enum {
    VALUES_ROWS = 3 /* x 4 registers of channels x 2 digits: 24 sums */
};

static void products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                             const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    sdot_products_of_keys(levels, levels_bytes, starts, n, keys, head_size, sums, stride);
}

/* Computes n_rows x 16 channels. A register of values is 4 channels x 4 positions, and a lane of weights is a digit of
 * 4 positions. */
LANES_INLINE void values_tile(const uint8_t *weights, size_t stride_bytes, const int8_t *const *values, size_t n_parts,
                              size_t head_size, size_t d, int32_t *outputs, const size_t n_rows) {
    int32x4_t high[VALUES_ROWS][4], low[VALUES_ROWS][4];

    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t c = 0; c < 4; c++)
        high[r][c] = low[r][c] = vdupq_n_s32(0);
    for (size_t part = 0; part < n_parts; part++) {
        const uint8_t *w = weights + part * WEIGHTS_PART_BYTES;
        const int8_t *first = values[part] + 4 * d, *second = first + 4 * head_size;

        for (size_t j = 0; j < KV_BLOCK; j += DIGITS_POSITIONS, w += DIGITS_BYTES) {
            int8x16_t digits[VALUES_ROWS];

            UNROLL
            for (size_t r = 0; r < n_rows; r++)
                digits[r] = vreinterpretq_s8_u8(vld1q_u8(w + r * stride_bytes));
            UNROLL
            for (size_t c = 0; c < 4; c++) {
                LOADS_STAY();

                const int8x16_t v0 = vld1q_s8(first + 16 * c), v1 = vld1q_s8(second + 16 * c);

                UNROLL
                for (size_t r = 0; r < n_rows; r++) {
                    high[r][c] = vdotq_laneq_s32(vdotq_laneq_s32(high[r][c], v0, digits[r], 0), v1, digits[r], 1);
                    low[r][c] = vdotq_laneq_s32(vdotq_laneq_s32(low[r][c], v0, digits[r], 2), v1, digits[r], 3);
                }
            }
            first += DIGITS_POSITIONS * head_size;
            second += DIGITS_POSITIONS * head_size;
        }
    }
    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t c = 0; c < 4; c++)
        store_outputs(outputs + r * head_size + d + 4 * c, high[r][c], low[r][c]);
}

VALUES_PANEL(1, 16, 1)
VALUES_PANEL(2, 16, 2)
VALUES_PANEL(3, 16, 3)

static void products_of_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                               size_t n_parts, size_t head_size, int32_t *outputs) {
    static ValuesPanel *const panels[VALUES_ROWS] = { values_1, values_2, values_3 };

    values_by_panels(panels, VALUES_ROWS, weights, stride_bytes, n, values, n_parts, head_size, outputs);
}

#endif
