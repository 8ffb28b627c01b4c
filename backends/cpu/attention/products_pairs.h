// SPDX-License-Identifier: Apache-2.0
/* The two integer products of attention by pmaddwd, which multiplies int16 and adds neighbours, on AVX2 and on SSE2.
 * Keys and values have one form: items (positions, or channels) side by side, 4 bytes each. One routine multiplies
 * these quads, widened to int16, by four int16 of a row-head (levels, or weights). vpmaddubsw would need the sign of
 * one factor moved to the other for each product, and takes as long on AVX2. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_PAIRS_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_PAIRS_H

#include <string.h>

#include "backends/cpu/attention/kv_head.h"
#include "backends/numeric/lanes.h"
#include "base/min_max.h"

/* The products can leave out the last positions of a block: products_of_first_*(), which fetch nothing. */
#define PRODUCTS_OF_FIRST

#if defined(__AVX2__)
typedef __m256i Words;
#else
typedef __m128i Words;
#endif

enum {
    ATTENTION_GROUP = 16,
    ATTENTION_KEY_BIAS = 0,
    WEIGHTS_PART_BYTES = KV_BLOCK * sizeof(int16_t), /* a row-head's weights of one part */
    TILE_ROWS = 4,                                   /* with two vectors these take 8 of 16 registers as sums */
    TILE_ITEMS = 2 * sizeof(Words) / 8
};

/* Sums of TILE_ITEMS items for each row-head, two halves of each. */
typedef struct Tile {
    Words halves[TILE_ROWS][2];
} Tile;

/* Row-heads' factors: int16[4] for each row of quads. */
typedef struct Factors {
    const uint8_t *at;
    size_t stride_bytes;
} Factors;

/* --- instructions ------------------------------------------------------------------------------------------------- */

/* Returns sums + a b, neighbouring products added. */
LANES_INLINE Words words_add_products(Words sums, Words a, Words b) {
#if defined(__AVX2__)
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
#else
    return _mm_add_epi32(sums, _mm_madd_epi16(a, b));
#endif
}

/* Loads the quads of half a tile. */
LANES_INLINE Words words_of_quads(const int8_t *quads) {
#if defined(__AVX2__)
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)quads));
#else
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)quads);

    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
#endif
}

/* Loads four factors for every item. */
LANES_INLINE Words words_of_factors(const uint8_t *factors) {
    long long four;

    memcpy(&four, factors, sizeof(four));
#if defined(__AVX2__)
    return _mm256_set1_epi64x(four);
#else
    return _mm_set1_epi64x(four);
#endif
}

/* Adds halves and stores a row-head's TILE_ITEMS sums. */
LANES_INLINE void words_store_sums(int32_t *sums, const Words halves[2]) {
#if defined(__AVX2__)
    const __m256i mixed = _mm256_hadd_epi32(halves[0], halves[1]);

    _mm256_storeu_si256((__m256i *)sums, _mm256_permute4x64_epi64(mixed, 0xd8));
#else
    const __m128 a = _mm_castsi128_ps(halves[0]), b = _mm_castsi128_ps(halves[1]);
    const __m128i even = _mm_castps_si128(_mm_shuffle_ps(a, b, 0x88)),
                  odd = _mm_castps_si128(_mm_shuffle_ps(a, b, 0xdd));

    _mm_storeu_si128((__m128i *)sums, _mm_add_epi32(even, odd));
#endif
}

/* Stores weights of 16 positions from `at` on, a multiple of 16, within a part: int16. */
LANES_INLINE void store_weights(uint8_t *part, size_t at, const PartI *w) {
    uint8_t *to = part + at * sizeof(int16_t);
#if defined(__AVX2__)
    const __m256i mixed = _mm256_packs_epi32((__m256i)w[0], (__m256i)w[1]);

    _mm256_storeu_si256((__m256i *)to, _mm256_permute4x64_epi64(mixed, 0xd8));
#else
    _mm_storeu_si128((__m128i *)to, _mm_packs_epi32((__m128i)w[0], (__m128i)w[1]));
    _mm_storeu_si128((__m128i *)(to + 16), _mm_packs_epi32((__m128i)w[2], (__m128i)w[3]));
#endif
}

/* --- tiles -------------------------------------------------------------------------------------------------------- */

LANES_INLINE void tile_begin(Tile *tile, const size_t n) {
    UNROLL
    for (size_t r = 0; r < n; r++)
        tile->halves[r][0] = tile->halves[r][1] = (Words){ 0 };
}

/* Adds the products of n_quads rows of quads, stride_bytes apart, for n row-heads. */
LANES_INLINE void tile_add(Tile *tile, Factors factors, const int8_t *quads, size_t stride_bytes, size_t n_quads,
                           const size_t n) {
    UNROLL_BY_4
    for (size_t quad = 0; quad < n_quads; quad++, quads += stride_bytes) {
        const Words a = words_of_quads(quads), b = words_of_quads(quads + sizeof(Words) / 2);

        UNROLL
        for (size_t r = 0; r < n; r++) {
            const Words f = words_of_factors(factors.at + r * factors.stride_bytes + 4 * sizeof(int16_t) * quad);

            tile->halves[r][0] = words_add_products(tile->halves[r][0], a, f);
            tile->halves[r][1] = words_add_products(tile->halves[r][1], b, f);
        }
    }
}

LANES_INLINE void tile_end(const Tile *tile, int32_t *sums, size_t stride, const size_t n) {
    UNROLL
    for (size_t r = 0; r < n; r++)
        words_store_sums(sums + r * stride, tile->halves[r]);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

LANES_INLINE void keys_tiles(Factors levels, const uint8_t *keys, size_t n_positions, size_t head_size, int32_t *sums,
                             size_t stride, const size_t n) {
    for (size_t j = 0; j < n_positions; j += TILE_ITEMS) {
        Tile tile;

        tile_begin(&tile, n);
        tile_add(&tile, levels, (const int8_t *)keys + 4 * j, 4 * KV_BLOCK, head_size / 4, n);
        tile_end(&tile, sums + j, stride, n);
    }
}

/* Widens a row-head's levels. */
static void widen(const int8_t *levels, size_t head_size, int16_t *wide) {
    for (size_t d = 0; d < head_size; d += sizeof(Words) / 2) {
        const Words words = words_of_quads(levels + d);

        memcpy(wide + d, &words, sizeof(words));
    }
}

/* sums[i * stride + j] = sum over d of levels[i * levels_bytes + d] * key(j, d), for j < n_positions, a multiple of 16.
 * Levels have no starts, since keys have no bias. */
static void products_of_first_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                                   const uint8_t *keys, size_t n_positions, size_t head_size, int32_t *sums,
                                   size_t stride, const uint8_t *fetch) {
    for (size_t i = 0; i < n; i += TILE_ROWS, sums += TILE_ROWS * stride) {
        const size_t n_rows = MIN(n - i, TILE_ROWS);
        int16_t wide[TILE_ROWS][KV_HEAD_SIZE_MAX];
        const Factors factors = { (const uint8_t *)wide, sizeof(wide[0]) };

        for (size_t r = 0; r < n_rows; r++)
            widen(levels + (i + r) * levels_bytes, head_size, wide[r]);
        if (n_rows == 4)
            keys_tiles(factors, keys, n_positions, head_size, sums, stride, 4);
        else if (n_rows == 3)
            keys_tiles(factors, keys, n_positions, head_size, sums, stride, 3);
        else if (n_rows == 2)
            keys_tiles(factors, keys, n_positions, head_size, sums, stride, 2);
        else
            keys_tiles(factors, keys, n_positions, head_size, sums, stride, 1);
    }
}

static void products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                             const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    products_of_first_keys(levels, levels_bytes, starts, n, keys, KV_BLOCK, head_size, sums, stride, NULL);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

LANES_INLINE void values_tiles(Factors weights, const int8_t *const *values, size_t n_parts, size_t n_last,
                               size_t head_size, int32_t *outputs, const size_t n) {
    for (size_t d = 0; d < head_size; d += TILE_ITEMS) {
        Tile tile;

        tile_begin(&tile, n);
        for (size_t part = 0; part < n_parts; part++) {
            const Factors factors = { weights.at + part * WEIGHTS_PART_BYTES, weights.stride_bytes };

            tile_add(&tile, factors, values[part] + 4 * d, 4 * head_size, (part + 1 < n_parts ? KV_BLOCK : n_last) / 4,
                     n);
        }
        tile_end(&tile, outputs + d, head_size, n);
    }
}

/* outputs[i * head_size + d] = sum over parts and positions of weight(i, j) * value(j, d), over the first n_last
 * positions of the last part. */
static void products_of_first_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                                     size_t n_parts, size_t n_last, size_t head_size, int32_t *outputs,
                                     const int8_t *const *fetch) {
    for (size_t i = 0; i < n; i += TILE_ROWS, outputs += TILE_ROWS * head_size) {
        const Factors factors = { weights + i * stride_bytes, stride_bytes };

        if (n - i >= 4)
            values_tiles(factors, values, n_parts, n_last, head_size, outputs, 4);
        else if (n - i == 3)
            values_tiles(factors, values, n_parts, n_last, head_size, outputs, 3);
        else if (n - i == 2)
            values_tiles(factors, values, n_parts, n_last, head_size, outputs, 2);
        else
            values_tiles(factors, values, n_parts, n_last, head_size, outputs, 1);
    }
}

static void products_of_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                               size_t n_parts, size_t head_size, int32_t *outputs) {
    products_of_first_values(weights, stride_bytes, n, values, n_parts, KV_BLOCK, head_size, outputs, NULL);
}

#endif
