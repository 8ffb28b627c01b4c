// SPDX-License-Identifier: Apache-2.0
/* The integer products of attention with the multiplications that every AArch64 has. products_scalar.h says what they
 * compute. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_NEON_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "backends/cpu/attention/kv_head.h"
#include "backends/cpu/attention/products_values_neon.h"
#include "backends/numeric/lanes.h"

enum {
    ATTENTION_GROUP = 16,
    ATTENTION_KEY_BIAS = 0,
    WEIGHTS_PART_BYTES = KV_BLOCK * sizeof(int16_t), /* a row-head's weights of one part */
    KEYS_ROWS = 2,                                   /* x 4 registers of positions x 2 halves: 16 sums */
    VALUES_ROWS = 4                                  /* x 4 registers of channels: 16 sums */
};

/* Keeps loads in place. The compiler would otherwise load everything at once and run out of registers. */
#define LOADS_STAY() __asm__ volatile("" : : : "memory")

/* Loads 4 channels into each fourth of a register. */
LANES_INLINE int8x16_t repeated_quad(const int8_t *levels) {
    int32_t quad;

    memcpy(&quad, levels, sizeof(quad));
    return vreinterpretq_s8_s32(vdupq_n_s32(quad));
}

/* Computes n_rows x 4 n_vectors sums. A register of keys is 4 positions x 4 channels, and levels are 4 channels of a
 * row-head, repeated. Two products are added in int16: at most 2 x 128 x 127 = 32512. */
LANES_INLINE void keys_tile(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const int8_t *keys,
                            size_t head_size, int32_t *sums, size_t stride, const size_t n_rows,
                            const size_t n_vectors) {
    int32x4_t lower[KEYS_ROWS][8], upper[KEYS_ROWS][8]; /* two sums a position: of 2 channels of each 4 */

    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t v = 0; v < n_vectors; v++)
        lower[r][v] = upper[r][v] = vdupq_n_s32(0);
    for (size_t d = 0; d < head_size; d += 8, levels += 8, keys += 8 * KV_BLOCK) {
        int8x16_t a[KEYS_ROWS], b[KEYS_ROWS];

        UNROLL
        for (size_t r = 0; r < n_rows; r++) {
            a[r] = repeated_quad(levels + r * levels_bytes);
            b[r] = repeated_quad(levels + r * levels_bytes + 4);
        }
        UNROLL
        for (size_t v = 0; v < n_vectors; v++) {
            LOADS_STAY();

            const int8x16_t k0 = vld1q_s8(keys + 16 * v), k1 = vld1q_s8(keys + 4 * KV_BLOCK + 16 * v);

            UNROLL
            for (size_t r = 0; r < n_rows; r++) {
                const int16x8_t low = vmull_s8(vget_low_s8(k0), vget_low_s8(a[r])), high = vmull_high_s8(k0, a[r]);

                lower[r][v] = vpadalq_s16(lower[r][v], vmlal_s8(low, vget_low_s8(k1), vget_low_s8(b[r])));
                upper[r][v] = vpadalq_s16(upper[r][v], vmlal_high_s8(high, k1, b[r]));
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t v = 0; v < n_vectors; v++)
        vst1q_s32(sums + r * stride + 4 * v, vaddq_s32(vpaddq_s32(lower[r][v], upper[r][v]), vdupq_n_s32(starts[r])));
}

typedef void KeysPanel(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const int8_t *keys,
                       size_t head_size, int32_t *sums, size_t stride);

#define KEYS_PANEL(n_rows, n_vectors)                                                                                  \
    static void keys_##n_rows(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const int8_t *keys,    \
                              size_t head_size, int32_t *sums, size_t stride) {                                        \
        for (size_t j = 0; j < KV_BLOCK; j += 4 * n_vectors)                                                           \
            keys_tile(levels, levels_bytes, starts, keys + 4 * j, head_size, sums + j, stride, n_rows, n_vectors);     \
    }
KEYS_PANEL(1, 8)
KEYS_PANEL(2, 4)

static void products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                             const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    static KeysPanel *const panels[KEYS_ROWS] = { keys_1, keys_2 };

    for (size_t row = 0, rows; row < n; row += rows) {
        rows = n - row < KEYS_ROWS ? n - row : KEYS_ROWS;
        panels[rows - 1](levels + row * levels_bytes, levels_bytes, starts + row, (const int8_t *)keys, head_size,
                         sums + row * stride, stride);
    }
}

/* Stores weights of 16 positions from `at` on, a multiple of 16, within a part: int16. */
LANES_INLINE void store_weights(uint8_t *part, size_t at, const PartI *w) {
    part += at * sizeof(int16_t);
    for (size_t i = 0; i < N_LANES / LANES_PART; i += 2, part += 16)
        vst1q_u8(part, (uint8x16_t)vuzp1q_s16((int16x8_t)w[i], (int16x8_t)w[i + 1]));
}

/* Computes n_rows x 16 channels. LD4 makes a register of each position from the 16 channels x 4 positions that lie
 * together. Values become int16, because weights have 15 bits. */
LANES_INLINE void values_tile(const uint8_t *weights, size_t stride_bytes, const int8_t *const *values, size_t n_parts,
                              size_t head_size, size_t d, int32_t *outputs, const size_t n_rows) {
    int32x4_t sum[VALUES_ROWS][4];

    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t c = 0; c < 4; c++)
        sum[r][c] = vdupq_n_s32(0);
    for (size_t part = 0; part < n_parts; part++) {
        const uint8_t *w = weights + part * WEIGHTS_PART_BYTES;
        const int8_t *v = values[part] + 4 * d;

        for (size_t j = 0; j < KV_BLOCK; j += 4, v += 4 * head_size) {
            const int8x16x4_t quad = vld4q_s8(v);
            int16x4_t four[VALUES_ROWS];

            UNROLL
            for (size_t r = 0; r < n_rows; r++)
                four[r] = vreinterpret_s16_u8(vld1_u8(w + r * stride_bytes + j * sizeof(int16_t)));
#define POSITION(i)                                                                                                    \
    do {                                                                                                               \
        const int16x8_t low = vmovl_s8(vget_low_s8(quad.val[i])), high = vmovl_high_s8(quad.val[i]);                   \
                                                                                                                       \
        UNROLL for (size_t r = 0; r < n_rows; r++) {                                                                   \
            sum[r][0] = vmlal_lane_s16(sum[r][0], vget_low_s16(low), four[r], i);                                      \
            sum[r][1] = vmlal_high_lane_s16(sum[r][1], low, four[r], i);                                               \
            sum[r][2] = vmlal_lane_s16(sum[r][2], vget_low_s16(high), four[r], i);                                     \
            sum[r][3] = vmlal_high_lane_s16(sum[r][3], high, four[r], i);                                              \
        }                                                                                                              \
    } while (0)
            POSITION(0);
            POSITION(1);
            POSITION(2);
            POSITION(3);
#undef POSITION
        }
    }
    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t c = 0; c < 4; c++)
        vst1q_s32(outputs + r * head_size + d + 4 * c, sum[r][c]);
}

VALUES_PANEL(1, 16, 1)
VALUES_PANEL(2, 16, 2)
VALUES_PANEL(3, 16, 3)
VALUES_PANEL(4, 16, 4)

static void products_of_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                               size_t n_parts, size_t head_size, int32_t *outputs) {
    static ValuesPanel *const panels[VALUES_ROWS] = { values_1, values_2, values_3, values_4 };

    values_by_panels(panels, VALUES_ROWS, weights, stride_bytes, n, values, n_parts, head_size, outputs);
}

#endif
