// SPDX-License-Identifier: Apache-2.0
/* Source of attention__amx compiled for the portable model of its instructions. */
#include "test/unit/backends/cpu/attention_amx_model.h"

#include "backends/numeric/lanes.h" /* its immintrin.h comes before the model */

#include "test/unit/backends/cpu/amx_tile_model.h"

enum {
    ATTENTION_KEY_BIAS = 128,
    WEIGHTS_PART_BYTES = 2 * KV_BLOCK
};

/* --- few row-heads, in plain C in the place of VNNI --------------------------------------------------------------- */

static void few_products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                                 const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < KV_BLOCK; j++) {
            int32_t sum = starts[i];

            for (size_t d = 0; d < head_size; d++)
                sum += levels[i * levels_bytes + d] * keys[kv_key_offset(j, d / 4 * 4) + d % 4];
            sums[i * stride + j] = sum;
        }
}

LANES_INLINE void store_weights(uint8_t *part, size_t at, const PartI *w) {
    int32_t whole[N_LANES];

    memcpy(whole, w, sizeof(whole));
    for (size_t i = 0; i < N_LANES; i++) {
        part[at + i] = (uint8_t)whole[i];
        part[KV_BLOCK + at + i] = (uint8_t)(whole[i] >> 8);
    }
}

static void few_products_of_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                                   size_t n_parts, size_t head_size, int32_t *outputs) {
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < head_size; d++) {
            int32_t sum = 0;

            for (size_t part = 0; part < n_parts; part++)
                for (size_t j = 0; j < KV_BLOCK; j++) {
                    const uint8_t *w = weights + i * stride_bytes + part * WEIGHTS_PART_BYTES + j;

                    sum += (w[0] + 256 * w[KV_BLOCK]) * values[part][kv_value_offset(head_size, j, d)];
                }
            outputs[i * head_size + d] = sum;
        }
}

/* Returns the sum of n levels. */
#define SUM_OF_LEVELS
static int32_t sum_of_levels(const int8_t *levels, size_t n) {
    int32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += levels[i];
    return sum;
}

/* --- the build ---------------------------------------------------------------------------------------------------- */

#include "backends/cpu/attention/products_amx.h"

static void tile_block(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts,
                       const AttentionMask *masks, void *scratch, const AttentionSums *sums);

#define ATTENTION_NAME attention_amx_model
#define ATTENTION_NEED 0
#define ATTENTION_BLOCK_SUMS tile_block
#include "backends/cpu/attention/attention_impl.h"

#include "backends/cpu/attention/attention_amx_impl.h"

void attention_amx_model_allow(const void *base, size_t n_bytes, bool writable) {
    tile_model_allow(base, n_bytes, writable);
}

void attention_amx_model_allow_all(void) {
    tile_model_regions.n = 0;
}

bool attention_amx_model_in_use(void) {
    return tile_model.configured;
}
