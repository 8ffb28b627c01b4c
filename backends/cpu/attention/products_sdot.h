// SPDX-License-Identifier: Apache-2.0
/* Parts that the builds with SDOT share: products of keys by SDOT, and weights as two signed digits. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_SDOT_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_SDOT_H

#include <arm_neon.h>

#include "backends/cpu/attention/kv_head.h"
#include "backends/numeric/lanes.h"

enum {
    ATTENTION_GROUP = 16,
    ATTENTION_KEY_BIAS = 0,
    DIGITS_POSITIONS = 8, /* positions whose digits fill a register */
    DIGITS_BYTES = 16,
    WEIGHTS_PART_BYTES = KV_BLOCK / DIGITS_POSITIONS * DIGITS_BYTES, /* a row-head's weights of one part */
    SDOT_KEYS_ROWS = 4
};

/* Keeps loads in place. The compiler would otherwise load everything at once and run out of registers. */
#define LOADS_STAY() __asm__ volatile("" : : : "memory")

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* Stores weights of 16 positions from `at` on, a multiple of 16, within a part. A weight is 256 high + low, both int8.
 * Each 8 positions have 8 high digits, then 8 low ones. */
LANES_INLINE void store_weights(uint8_t *part, size_t at, const PartI *w) {
    part += at / DIGITS_POSITIONS * DIGITS_BYTES;
    for (size_t i = 0; i < N_LANES / LANES_PART; i += 2, part += DIGITS_BYTES) {
        const int16x8_t weights = vuzp1q_s16((int16x8_t)w[i], (int16x8_t)w[i + 1]), high = vrshrq_n_s16(weights, 8);

        vst1q_u8(part, vuzp1q_u8((uint8x16_t)high, (uint8x16_t)weights));
    }
}

/* Stores outputs of 4 channels from the sums of both digits. */
LANES_INLINE void store_outputs(int32_t *outputs, int32x4_t high, int32x4_t low) {
    vst1q_s32(outputs, vaddq_s32(low, vshlq_n_s32(high, 8)));
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

/* Computes n_rows x 4 n_vectors sums. A register of keys is 4 positions x 4 channels, and a lane of levels is 4
 * channels of a row-head. */
LANES_INLINE void sdot_keys_tile(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const int8_t *keys,
                                 size_t head_size, int32_t *sums, size_t stride, const size_t n_rows,
                                 const size_t n_vectors) {
    int32x4_t sum[SDOT_KEYS_ROWS][16];

    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t v = 0; v < n_vectors; v++)
        sum[r][v] = vdupq_n_s32(starts[r]);
    for (size_t d = 0; d < head_size; d += 16) {
        int8x16_t row[SDOT_KEYS_ROWS];

        UNROLL
        for (size_t r = 0; r < n_rows; r++)
            row[r] = vld1q_s8(levels + r * levels_bytes + d);
#define SDOT_QUAD(quad)                                                                                                \
    UNROLL for (size_t v = 0; v < n_vectors; v++) {                                                                    \
        LOADS_STAY();                                                                                                  \
        const int8x16_t four_keys = vld1q_s8(keys + 16 * v);                                                           \
                                                                                                                       \
        UNROLL for (size_t r = 0; r < n_rows; r++) sum[r][v] = vdotq_laneq_s32(sum[r][v], four_keys, row[r], quad);    \
    }                                                                                                                  \
    keys += 4 * KV_BLOCK
        SDOT_QUAD(0);
        SDOT_QUAD(1);
        SDOT_QUAD(2);
        SDOT_QUAD(3);
#undef SDOT_QUAD
    }
    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        UNROLL
    for (size_t v = 0; v < n_vectors; v++)
        vst1q_s32(sums + r * stride + 4 * v, sum[r][v]);
}

typedef void KeysPanel(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const int8_t *keys,
                       size_t head_size, int32_t *sums, size_t stride);

/* Few row-heads read more positions at a time: as many sums hide the latency of SDOT. */
#define SDOT_KEYS_PANEL(n_rows, n_vectors)                                                                             \
    static void sdot_keys_##n_rows(const int8_t *levels, size_t levels_bytes, const int32_t *starts,                   \
                                   const int8_t *keys, size_t head_size, int32_t *sums, size_t stride) {               \
        for (size_t j = 0; j < KV_BLOCK; j += 4 * n_vectors)                                                           \
            sdot_keys_tile(levels, levels_bytes, starts, keys + 4 * j, head_size, sums + j, stride, n_rows,            \
                           n_vectors);                                                                                 \
    }
SDOT_KEYS_PANEL(1, 8)
SDOT_KEYS_PANEL(2, 8)
SDOT_KEYS_PANEL(3, 8)
SDOT_KEYS_PANEL(4, 4)

/* Computes products_of_keys() of products_scalar.h with SDOT, 16 products an instruction. The block's keys stay cached
 * while all row-heads pass over them in panels of nearly equal height. */
static void sdot_products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                                  const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    static KeysPanel *const panels[SDOT_KEYS_ROWS] = { sdot_keys_1, sdot_keys_2, sdot_keys_3, sdot_keys_4 };
    const size_t n_panels = (n + SDOT_KEYS_ROWS - 1) / SDOT_KEYS_ROWS;

    for (size_t p = 0, row = 0, next; p < n_panels; p++, row = next) {
        next = n * (p + 1) / n_panels;
        panels[next - row - 1](levels + row * levels_bytes, levels_bytes, starts + row, (const int8_t *)keys, head_size,
                               sums + row * stride, stride);
    }
}

#endif
