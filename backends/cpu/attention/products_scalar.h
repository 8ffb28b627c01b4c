// SPDX-License-Identifier: Apache-2.0
/* The two integer products of attention in plain C, and the form of weights that they read; with SSE2, which every
 * x86-64 has, by pmaddwd. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_SCALAR_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_SCALAR_H

#if defined(__SSE2__)
#include "backends/cpu/attention/products_pairs.h"
#else
#include <string.h>

#include "backends/cpu/attention/kv_head.h"
#include "backends/numeric/lanes.h"

enum {
    ATTENTION_GROUP = 16,
    ATTENTION_KEY_BIAS = 0,
    WEIGHTS_PART_BYTES = KV_BLOCK * sizeof(int16_t) /* a row-head's weights of one part */
};

/* sums[i * stride + j] = starts[i] + sum over d of levels[i * levels_bytes + d] * key(j, d), for j < KV_BLOCK. */
static void products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                             const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    for (size_t i = 0; i < n; i++, levels += levels_bytes, sums += stride) {
        for (size_t j = 0; j < KV_BLOCK; j++)
            sums[j] = starts[i];
        for (size_t d = 0; d < head_size; d += 4) {
            const int8_t *quad = (const int8_t *)keys + d * KV_BLOCK;
            const int32_t a = levels[d], b = levels[d + 1], c = levels[d + 2], e = levels[d + 3];

            for (size_t j = 0; j < KV_BLOCK; j++)
                sums[j] += a * quad[4 * j] + b * quad[4 * j + 1] + c * quad[4 * j + 2] + e * quad[4 * j + 3];
        }
    }
}

/* Stores weights of 16 positions from `at` on, a multiple of 16, within a part: int16. */
LANES_INLINE void store_weights(uint8_t *part, size_t at, const PartI *w) {
    int32_t whole[N_LANES];
    int16_t halves[N_LANES];

    memcpy(whole, w, sizeof(whole));
    for (size_t i = 0; i < N_LANES; i++)
        halves[i] = (int16_t)whole[i];
    memcpy(part + at * sizeof(int16_t), halves, sizeof(halves));
}

/* outputs[i * head_size + d] = sum over parts and positions of weight(i, j) * value(j, d). */
static void products_of_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                               size_t n_parts, size_t head_size, int32_t *outputs) {
    memset(outputs, 0, n * head_size * sizeof(*outputs));
    for (size_t i = 0; i < n; i++, weights += stride_bytes, outputs += head_size)
        for (size_t part = 0; part < n_parts; part++)
            for (size_t j = 0; j < KV_BLOCK; j += 4) {
                const int8_t *quad = values[part] + j * head_size;
                int16_t w[4];

                memcpy(w, weights + part * WEIGHTS_PART_BYTES + j * sizeof(*w), sizeof(w));
                for (size_t d = 0; d < head_size; d++)
                    outputs[d] +=
                        w[0] * quad[4 * d] + w[1] * quad[4 * d + 1] + w[2] * quad[4 * d + 2] + w[3] * quad[4 * d + 3];
            }
}

#endif
#endif
