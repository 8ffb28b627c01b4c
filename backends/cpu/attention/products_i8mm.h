// SPDX-License-Identifier: Apache-2.0
/* The integer products of attention with SMMLA: 2 x 2 sums of 8 products an instruction. products_scalar.h says what
 * they compute. SMMLA wants 8 channels of a position, or 8 positions of a channel, and the cache has 4 side by side.
 * Two registers that are neighbours in this direction are therefore zipped by fours. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_I8MM_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_I8MM_H

#include "backends/cpu/attention/products_sdot.h"
#include "backends/cpu/attention/products_values_neon.h"

enum {
    KEYS_PAIRS = 3,         /* pairs of row-heads x 8 pairs of positions: 24 sums */
    KEYS_ROWS_OF_SMMLA = 4, /* fewer row-heads take fewer instructions with SDOT */
    VALUES_ROWS = 6         /* x 4 pairs of channels: 24 sums */
};

/* The two halves of registers a and b, zipped by fours. */
typedef struct Zipped {
    int8x16_t lower, upper;
} Zipped;

LANES_INLINE Zipped load_zipped(const int8_t *a, const int8_t *b) {
    const int32x4_t first = vreinterpretq_s32_s8(vld1q_s8(a)), second = vreinterpretq_s32_s8(vld1q_s8(b));

    return (Zipped){ vreinterpretq_s8_s32(vzip1q_s32(first, second)), vreinterpretq_s8_s32(vzip2q_s32(first, second)) };
}

/* Returns rows 0 of two registers of 2 x 2 sums. */
LANES_INLINE int32x4_t rows_0(int32x4_t a, int32x4_t b) {
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

/* Returns rows 1 of two registers of 2 x 2 sums. */
LANES_INLINE int32x4_t rows_1(int32x4_t a, int32x4_t b) {
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

/* Computes 2 n_pairs row-heads x 16 positions. The last row-head of an odd number stands for both of its pair:
 * to_last_second is 0 then, else 1. */
LANES_INLINE void keys_tile(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const int8_t *keys,
                            size_t head_size, int32_t *sums, size_t stride, size_t to_last_second,
                            const size_t n_pairs) {
    int32x4_t sum[KEYS_PAIRS][8];

    UNROLL
    for (size_t p = 0; p < n_pairs; p++) {
        const size_t second = p + 1 < n_pairs ? 1 : to_last_second;

        UNROLL
        for (size_t v = 0; v < 8; v++)
            sum[p][v] = vcombine_s32(vdup_n_s32(starts[2 * p]), vdup_n_s32(starts[2 * p + second]));
    }
    for (size_t d = 0; d < head_size; d += 8, levels += 8, keys += 8 * KV_BLOCK) {
        int8x16_t pair[KEYS_PAIRS];

        UNROLL
        for (size_t p = 0; p < n_pairs; p++) {
            const int8_t *row = levels + 2 * p * levels_bytes;

            pair[p] = vcombine_s8(vld1_s8(row), vld1_s8(row + (p + 1 < n_pairs ? 1 : to_last_second) * levels_bytes));
        }
        UNROLL
        for (size_t v = 0; v < 4; v++) {
            LOADS_STAY();

            const Zipped zipped = load_zipped(keys + 16 * v, keys + 4 * KV_BLOCK + 16 * v);

            UNROLL
            for (size_t p = 0; p < n_pairs; p++) {
                sum[p][2 * v] = vmmlaq_s32(sum[p][2 * v], pair[p], zipped.lower);
                sum[p][2 * v + 1] = vmmlaq_s32(sum[p][2 * v + 1], pair[p], zipped.upper);
            }
        }
    }
    UNROLL
    for (size_t p = 0; p < n_pairs; p++) {
        int32_t *first = sums + 2 * p * stride, *second = first + (p + 1 < n_pairs ? 1 : to_last_second) * stride;

        /* With one row-head for both, the second store writes the first's numbers again. */
        UNROLL
        for (size_t v = 0; v < 4; v++) {
            vst1q_s32(first + 4 * v, rows_0(sum[p][2 * v], sum[p][2 * v + 1]));
            vst1q_s32(second + 4 * v, rows_1(sum[p][2 * v], sum[p][2 * v + 1]));
        }
    }
}

typedef void PairsPanel(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const int8_t *keys,
                        size_t head_size, int32_t *sums, size_t stride, size_t to_last_second);

#define KEYS_PANEL(n_pairs)                                                                                            \
    static void keys_##n_pairs(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const int8_t *keys,   \
                               size_t head_size, int32_t *sums, size_t stride, size_t to_last_second) {                \
        for (size_t j = 0; j < KV_BLOCK; j += 16)                                                                      \
            keys_tile(levels, levels_bytes, starts, keys + 4 * j, head_size, sums + j, stride, to_last_second,         \
                      n_pairs);                                                                                        \
    }
KEYS_PANEL(1)
KEYS_PANEL(2)
KEYS_PANEL(3)

static void products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                             const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    static PairsPanel *const panels[KEYS_PAIRS] = { keys_1, keys_2, keys_3 };
    const size_t n_pairs = (n + 1) / 2, n_panels = (n_pairs + KEYS_PAIRS - 1) / KEYS_PAIRS;

    if (n < KEYS_ROWS_OF_SMMLA) {
        sdot_products_of_keys(levels, levels_bytes, starts, n, keys, head_size, sums, stride);
        return;
    }
    for (size_t p = 0, pair = 0, next; p < n_panels; p++, pair = next) {
        next = n_pairs * (p + 1) / n_panels;
        panels[next - pair - 1](levels + 2 * pair * levels_bytes, levels_bytes, starts + 2 * pair, (const int8_t *)keys,
                                head_size, sums + 2 * pair * stride, stride, 2 * next <= n);
    }
}

/* Computes n_rows x 4 n_vectors channels. Both digits of a row-head's weights are the two rows of SMMLA, so that one
 * row-head wastes nothing. */
LANES_INLINE void values_tile(const uint8_t *weights, size_t stride_bytes, const int8_t *const *values, size_t n_parts,
                              size_t head_size, size_t d, int32_t *outputs, const size_t n_rows,
                              const size_t n_vectors) {
    int32x4_t sum[VALUES_ROWS][8]; /* [2 x 2 sums: digit, channel] */

    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t c = 0; c < 2 * n_vectors; c++)
        sum[r][c] = vdupq_n_s32(0);
    for (size_t part = 0; part < n_parts; part++) {
        const uint8_t *w = weights + part * WEIGHTS_PART_BYTES;
        const int8_t *first = values[part] + 4 * d, *second = first + 4 * head_size;

        for (size_t j = 0; j < KV_BLOCK; j += DIGITS_POSITIONS, w += DIGITS_BYTES) {
            Zipped zipped[4];

            UNROLL
            for (size_t c = 0; c < n_vectors; c++)
                zipped[c] = load_zipped(first + 16 * c, second + 16 * c);
            UNROLL
            for (size_t r = 0; r < n_rows; r++) {
                LOADS_STAY();

                const int8x16_t digits = vreinterpretq_s8_u8(vld1q_u8(w + r * stride_bytes));

                UNROLL
                for (size_t c = 0; c < n_vectors; c++) {
                    sum[r][2 * c] = vmmlaq_s32(sum[r][2 * c], digits, zipped[c].lower);
                    sum[r][2 * c + 1] = vmmlaq_s32(sum[r][2 * c + 1], digits, zipped[c].upper);
                }
            }
            first += DIGITS_POSITIONS * head_size;
            second += DIGITS_POSITIONS * head_size;
        }
    }
    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t c = 0; c < n_vectors; c++)
        store_outputs(outputs + r * head_size + d + 4 * c, rows_0(sum[r][2 * c], sum[r][2 * c + 1]),
                      rows_1(sum[r][2 * c], sum[r][2 * c + 1]));
}

VALUES_PANEL(1, 16, 1, 4)
VALUES_PANEL(2, 16, 2, 4)
VALUES_PANEL(3, 8, 3, 2)
VALUES_PANEL(4, 8, 4, 2)
VALUES_PANEL(5, 8, 5, 2)
VALUES_PANEL(6, 8, 6, 2)

static void products_of_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                               size_t n_parts, size_t head_size, int32_t *outputs) {
    static ValuesPanel *const panels[VALUES_ROWS] = { values_1, values_2, values_3, values_4, values_5, values_6 };

    values_by_panels(panels, VALUES_ROWS, weights, stride_bytes, n, values, n_parts, head_size, outputs);
}

#endif
