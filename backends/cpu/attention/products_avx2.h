// SPDX-License-Identifier: Apache-2.0
/* The two integer products of attention by vpmaddwd. Keys and values have one form: items (positions, or channels) side
 * by side, 4 bytes each. One routine multiplies these quads, widened to int16, by four int16 of a row-head (levels, or
 * weights). vpmaddubsw would need its signs moved from one factor to the other for each product, for no gain. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_AVX2_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "backends/cpu/attention/attention.h"
#include "backends/numeric/lanes.h"
#include "base/min_max.h"

enum {
    ATTENTION_GROUP = 16,
    ATTENTION_KEY_BIAS = 0,
    WEIGHTS_PART_BYTES = KV_BLOCK * sizeof(int16_t), /* a row-head's weights of one part */
    TILE_ROWS = 4,                                   /* with two vectors these take 8 of 16 registers as sums */
    TILE_ITEMS = 8
};

/* Rows of int16 factors: four for each row of quads. */
typedef struct Factors {
    const uint8_t *at;
    size_t stride_bytes;
} Factors;

/* Sums of 8 items for each row-head, still in pairs. */
typedef struct Tile {
    __m256i pairs[TILE_ROWS][2];
} Tile;

/* Adds the products of n_quads rows of quads, stride_bytes apart, for n row-heads. */
LANES_INLINE void tile_add(Tile *tile, Factors factors, const int8_t *quads, size_t stride_bytes, size_t n_quads,
                           const size_t n) {
    UNROLL_BY_4
    for (size_t quad = 0; quad < n_quads; quad++, quads += stride_bytes) {
        const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)quads)),
                      b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(quads + 16)));

        UNROLL
        for (size_t r = 0; r < n; r++) {
            long long four;
            __m256i f;

            memcpy(&four, factors.at + r * factors.stride_bytes + 8 * quad, sizeof(four));
            f = _mm256_set1_epi64x(four);
            tile->pairs[r][0] = _mm256_add_epi32(tile->pairs[r][0], _mm256_madd_epi16(a, f));
            tile->pairs[r][1] = _mm256_add_epi32(tile->pairs[r][1], _mm256_madd_epi16(b, f));
        }
    }
}

LANES_INLINE void tile_begin(Tile *tile, const size_t n) {
    UNROLL
    for (size_t r = 0; r < n; r++)
        tile->pairs[r][0] = tile->pairs[r][1] = _mm256_setzero_si256();
}

/* Writes each row-head's 8 sums. */
LANES_INLINE void tile_end(const Tile *tile, int32_t *sums, size_t stride, const size_t n) {
    UNROLL
    for (size_t r = 0; r < n; r++) {
        const __m256i mixed = _mm256_hadd_epi32(tile->pairs[r][0], tile->pairs[r][1]);

        _mm256_storeu_si256((__m256i *)(sums + r * stride), _mm256_permute4x64_epi64(mixed, 0xd8));
    }
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

LANES_INLINE void keys_tiles(Factors levels, const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride,
                             const size_t n) {
    for (size_t j = 0; j < KV_BLOCK; j += TILE_ITEMS) {
        Tile tile;

        tile_begin(&tile, n);
        tile_add(&tile, levels, (const int8_t *)keys + 4 * j, 4 * KV_BLOCK, head_size / 4, n);
        tile_end(&tile, sums + j, stride, n);
    }
}

/* sums[i * stride + j] = starts[i] + sum over d of levels[i * levels_bytes + d] * key(j, d), for j < KV_BLOCK. starts
 * are 0, since keys have no bias. */
static void products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                             const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    for (size_t i = 0; i < n; i += TILE_ROWS) {
        const size_t n_rows = MIN(n - i, TILE_ROWS);
        int16_t wide[TILE_ROWS][KV_HEAD_SIZE_MAX];
        const Factors factors = { (const uint8_t *)wide, sizeof(wide[0]) };

        for (size_t r = 0; r < n_rows; r++)
            for (size_t d = 0; d < head_size; d += 16)
                _mm256_storeu_si256((__m256i *)(wide[r] + d), _mm256_cvtepi8_epi16(_mm_loadu_si128(
                                                                  (const __m128i *)(levels + (i + r) * levels_bytes + d))));
        if (n_rows == 4)
            keys_tiles(factors, keys, head_size, sums + i * stride, stride, 4);
        else if (n_rows == 3)
            keys_tiles(factors, keys, head_size, sums + i * stride, stride, 3);
        else if (n_rows == 2)
            keys_tiles(factors, keys, head_size, sums + i * stride, stride, 2);
        else
            keys_tiles(factors, keys, head_size, sums + i * stride, stride, 1);
    }
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* Stores weights of 16 positions from `at` on, a multiple of 16, within a part: int16. */
LANES_INLINE void store_weights(uint8_t *part, size_t at, const PartI *w) {
    const __m256i mixed = _mm256_packs_epi32((__m256i)w[0], (__m256i)w[1]);

    _mm256_storeu_si256((__m256i *)(part + at * sizeof(int16_t)), _mm256_permute4x64_epi64(mixed, 0xd8));
}

LANES_INLINE void values_tiles(Factors weights, const int8_t *const *values, size_t n_parts, size_t head_size,
                               int32_t *outputs, const size_t n) {
    for (size_t d = 0; d < head_size; d += TILE_ITEMS) {
        Tile tile;

        tile_begin(&tile, n);
        for (size_t part = 0; part < n_parts; part++) {
            const Factors factors = { weights.at + part * WEIGHTS_PART_BYTES, weights.stride_bytes };

            tile_add(&tile, factors, values[part] + 4 * d, 4 * head_size, KV_BLOCK / 4, n);
        }
        tile_end(&tile, outputs + d, head_size, n);
    }
}

/* outputs[i * head_size + d] = sum over parts and positions of weight(i, j) * value(j, d). */
static void products_of_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                               size_t n_parts, size_t head_size, int32_t *outputs) {
    for (size_t i = 0; i < n; i += TILE_ROWS, outputs += TILE_ROWS * head_size) {
        const Factors factors = { weights + i * stride_bytes, stride_bytes };

        if (n - i >= 4)
            values_tiles(factors, values, n_parts, head_size, outputs, 4);
        else if (n - i == 3)
            values_tiles(factors, values, n_parts, head_size, outputs, 3);
        else if (n - i == 2)
            values_tiles(factors, values, n_parts, head_size, outputs, 2);
        else
            values_tiles(factors, values, n_parts, head_size, outputs, 1);
    }
}

#endif
