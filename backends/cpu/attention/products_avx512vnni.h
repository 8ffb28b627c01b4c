// SPDX-License-Identifier: Apache-2.0
/* The two integer products of attention by vpdpbusd: 64 products of unsigned and signed bytes, summed by fours. Keys
 * are the unsigned operand, biased in the cache. Weights are two planes of unsigned bytes. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_AVX512VNNI_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_PRODUCTS_AVX512VNNI_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cpu/attention/kv_head.h"
#include "backends/numeric/lanes.h"
#include "base/min_max.h"

/* Weights of a part are stored at once: store_part_weights(). */
#define WEIGHTS_BY_PART
/* The products can leave out the last positions of a block, and fetch the next call's keys and values. */
#define PRODUCTS_OF_FIRST

enum {
    ATTENTION_GROUP = 16,
    ATTENTION_KEY_BIAS = 128,
    WEIGHTS_PART_BYTES = 2 * KV_BLOCK, /* a row-head's weights of one part: low bytes, then high bytes */
    KEY_VECTORS = KV_BLOCK / 16,       /* of 16 positions */
    KEY_ROWS = 6,                      /* with 4 vectors these take 24 of 32 registers as sums */
    VALUE_VECTORS = 4,                 /* of 16 channels; two planes of 3 row-heads take 24 registers, too */
    VALUE_ROWS = 3
};

/* Inline assembly, because gcc 12 copies accumulators around the intrinsics and loses half the speed. */
LANES_INLINE void add_products(__m512i *sum, __m512i unsigned_bytes, __m512i signed_bytes) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(unsigned_bytes), "v"(signed_bytes));
}

LANES_INLINE __m512i broadcast_quad(const void *bytes) {
    __m512i quads;

    __asm__("vpbroadcastd %1, %0" : "=v"(quads) : "m"(*(const uint8_t(*)[4])bytes));
    return quads;
}

/* Loads a vector once, where gcc 12 would load it again for each use. */
LANES_INLINE __m512i load_once(const void *bytes) {
    __m512i vector;

    __asm__("vmovdqu64 %1, %0" : "=v"(vector) : "m"(*(const uint8_t(*)[64])bytes));
    return vector;
}

/* Returns the sum of levels, whose number is a multiple of 64. */
#define SUM_OF_LEVELS
LANES_INLINE int32_t sum_of_levels(const int8_t *levels, size_t n) {
    __m512i sum = _mm512_setzero_si512();

    for (size_t d = 0; d < n; d += 64)
        add_products(&sum, _mm512_set1_epi8(1), _mm512_loadu_si512(levels + d));
    return _mm512_reduce_add_epi32(sum);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

typedef void KeysPanel(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const uint8_t *keys,
                       size_t head_size, int32_t *sums, size_t stride, const uint8_t *fetch);

/* Computes the sums of n row-heads and 16 n_vectors positions. Each sum is kept in n_chains registers, so that few
 * row-heads have enough products under way at once. */
LANES_INLINE void keys_panel(const int8_t *levels, size_t levels_bytes, const int32_t *starts, const uint8_t *keys,
                             size_t head_size, int32_t *sums, size_t stride, const uint8_t *fetch, const size_t n,
                             const size_t n_vectors, const size_t n_chains, const bool fetches) {
    __m512i sum[4][KEY_ROWS][KEY_VECTORS];

    UNROLL
    for (size_t r = 0; r < n; r++)
        UNROLL
    for (size_t v = 0; v < n_vectors; v++) {
        sum[0][r][v] = _mm512_set1_epi32(starts[r]);
        UNROLL
        for (size_t c = 1; c < n_chains; c++)
            sum[c][r][v] = _mm512_setzero_si512();
    }
    for (size_t d = 0; d < head_size; d += 16)
        UNROLL
    for (size_t quad = 0; quad < 4; quad++) {
        __m512i k[KEY_VECTORS];

        UNROLL
        for (size_t v = 0; v < n_vectors; v++) {
            k[v] = load_once(keys + (d + 4 * quad) * KV_BLOCK + 64 * v);
            if (fetches)
                _mm_prefetch((const char *)fetch + (d + 4 * quad) * KV_BLOCK + 64 * v, _MM_HINT_T0);
        }
        UNROLL
        for (size_t r = 0; r < n; r++) {
            const __m512i q = broadcast_quad(levels + r * levels_bytes + d + 4 * quad);

            UNROLL
            for (size_t v = 0; v < n_vectors; v++)
                add_products(&sum[quad % n_chains][r][v], k[v], q);
        }
    }
    UNROLL
    for (size_t r = 0; r < n; r++)
        UNROLL
    for (size_t v = 0; v < n_vectors; v++) {
        UNROLL
        for (size_t c = 1; c < n_chains; c++)
            sum[0][r][v] = _mm512_add_epi32(sum[0][r][v], sum[c][r][v]);
        _mm512_storeu_si512(sums + r * stride + 16 * v, sum[0][r][v]);
    }
}

#define KEYS_PANEL_NAMED(name, n, n_vectors, n_chains, fetches)                                                        \
    static __attribute__((noinline)) void name(const int8_t *levels, size_t levels_bytes, const int32_t *starts,       \
                                               const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride,    \
                                               const uint8_t *fetch) {                                                 \
        keys_panel(levels, levels_bytes, starts, keys, head_size, sums, stride, fetch, n, n_vectors, n_chains,         \
                   fetches);                                                                                           \
    }
/* Panels of 16, 32, 48 or 64 positions, and one of 64 that fetches. */
#define KEYS_PANELS(n, n_chains)                                                                                       \
    KEYS_PANEL_NAMED(keys_panel_##n##_1, n, 1, 4, false)                                                               \
    KEYS_PANEL_NAMED(keys_panel_##n##_2, n, 2, 2, false)                                                               \
    KEYS_PANEL_NAMED(keys_panel_##n##_3, n, 3, n_chains, false)                                                        \
    KEYS_PANEL_NAMED(keys_panel_##n##_4, n, 4, n_chains, false)                                                        \
    KEYS_PANEL_NAMED(keys_panel_##n##_fetching, n, 4, n_chains, true)

KEYS_PANELS(1, 4)
KEYS_PANELS(2, 2)
KEYS_PANELS(3, 1)
KEYS_PANELS(4, 1)
KEYS_PANELS(5, 1)
KEYS_PANELS(6, 1)
#undef KEYS_PANELS
#undef KEYS_PANEL_NAMED

/* sums[i * stride + j] = starts[i] + sum over d of levels[i * levels_bytes + d] * key(j, d), for j < n_positions, a
 * multiple of 16. Fetches other keys meanwhile, if fetch is not NULL and n_positions is KV_BLOCK. */
static void products_of_first_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                                   const uint8_t *keys, size_t n_positions, size_t head_size, int32_t *sums,
                                   size_t stride, const uint8_t *fetch) {
#define KEYS_PANELS(n)                                                                                                 \
    { keys_panel_##n##_1, keys_panel_##n##_2, keys_panel_##n##_3, keys_panel_##n##_4, keys_panel_##n##_fetching }
    static KeysPanel *const panels[KEY_ROWS][KEY_VECTORS + 1] = { KEYS_PANELS(1), KEYS_PANELS(2), KEYS_PANELS(3),
                                                                  KEYS_PANELS(4), KEYS_PANELS(5), KEYS_PANELS(6) };
#undef KEYS_PANELS
    const size_t n_panels = (n + KEY_ROWS - 1) / KEY_ROWS, kind = n_positions / 16 - 1;

    for (size_t panel = 0, i = 0, end; panel < n_panels; panel++, i = end) {
        const bool fetches = fetch && !panel && n_positions == KV_BLOCK;

        end = (panel + 1) * n / n_panels;
        panels[end - i - 1][kind + fetches](levels + i * levels_bytes, levels_bytes, starts + i, keys, head_size,
                                            sums + i * stride, stride, fetch);
    }
}

static void products_of_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                             const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride) {
    products_of_first_keys(levels, levels_bytes, starts, n, keys, KV_BLOCK, head_size, sums, stride, NULL);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* Stores a part's weights: a plane of low bytes and one of high bytes. Lanes of 128 bits keep 4 low bytes of each
 * vector and its 4 high bytes together until the last step. */
LANES_INLINE void store_part_weights(uint8_t *part, const PartI w[][LANES_PARTS]) {
    const __m512i planes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    const __m512i low = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 16, 20, 24, 28, 17, 21, 25, 29);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(2));
    const __m512i ab = _mm512_shuffle_epi8(_mm512_packus_epi32((__m512i)w[0][0], (__m512i)w[1][0]), planes),
                  cd = _mm512_shuffle_epi8(_mm512_packus_epi32((__m512i)w[2][0], (__m512i)w[3][0]), planes);

    _mm512_storeu_si512(part, _mm512_permutex2var_epi32(ab, low, cd));
    _mm512_storeu_si512(part + KV_BLOCK, _mm512_permutex2var_epi32(ab, high, cd));
}

typedef void ValuesPanel(const uint8_t *weights, size_t stride_bytes, const int8_t *const *values, size_t n_parts,
                         size_t n_last, size_t head_size, size_t channel, int32_t *outputs, const int8_t *const *fetch);

/* Computes n row-heads x n_vectors of 16 channels over all parts, so that the sums stay in registers. */
LANES_INLINE void values_panel(const uint8_t *weights, size_t stride_bytes, const int8_t *const *values, size_t n_parts,
                               size_t n_last, size_t head_size, size_t channel, int32_t *outputs,
                               const int8_t *const *fetch, const size_t n, const size_t n_vectors, const bool fetches) {
    __m512i low[VALUE_ROWS][VALUE_VECTORS], high[VALUE_ROWS][VALUE_VECTORS];

    UNROLL
    for (size_t r = 0; r < n; r++)
        UNROLL
    for (size_t c = 0; c < n_vectors; c++)
        low[r][c] = high[r][c] = _mm512_setzero_si512();
    for (size_t part = 0; part < n_parts; part++, weights += WEIGHTS_PART_BYTES) {
        const int8_t *quads = values[part] + 4 * channel, *next = fetches ? fetch[part] + 4 * channel : NULL;
        const size_t end = part + 1 < n_parts ? KV_BLOCK : n_last;

        for (size_t first = 0; first < end; first += 16)
            UNROLL
        for (size_t j = first; j < first + 16; j += 4, quads += 4 * head_size) {
            __m512i v[VALUE_VECTORS];

            UNROLL
            for (size_t c = 0; c < n_vectors; c++) {
                v[c] = load_once(quads + 64 * c);
                if (fetches)
                    _mm_prefetch((const char *)next + j * head_size + 64 * c, _MM_HINT_T1);
            }
            UNROLL
            for (size_t r = 0; r < n; r++) {
                const __m512i low_w = broadcast_quad(weights + r * stride_bytes + j),
                              high_w = broadcast_quad(weights + r * stride_bytes + KV_BLOCK + j);

                UNROLL
                for (size_t c = 0; c < n_vectors; c++) {
                    add_products(&low[r][c], low_w, v[c]);
                    add_products(&high[r][c], high_w, v[c]);
                }
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < n; r++)
        UNROLL
    for (size_t c = 0; c < n_vectors; c++)
        _mm512_storeu_si512(outputs + r * head_size + channel + 16 * c,
                            _mm512_add_epi32(_mm512_slli_epi32(high[r][c], 8), low[r][c]));
}

#define VALUES_PANEL(n, n_vectors)                                                                                     \
    static __attribute__((noinline)) void values_panel_##n##_##n_vectors(                                              \
        const uint8_t *weights, size_t stride_bytes, const int8_t *const *values, size_t n_parts, size_t n_last,       \
        size_t head_size, size_t channel, int32_t *outputs, const int8_t *const *fetch) {                              \
        if (fetch)                                                                                                     \
            values_panel(weights, stride_bytes, values, n_parts, n_last, head_size, channel, outputs, fetch, n,        \
                         n_vectors, true);                                                                             \
        else                                                                                                           \
            values_panel(weights, stride_bytes, values, n_parts, n_last, head_size, channel, outputs, NULL, n,         \
                         n_vectors, false);                                                                            \
    }

VALUES_PANEL(1, 1)
VALUES_PANEL(1, 2)
VALUES_PANEL(1, 3)
VALUES_PANEL(1, 4)
VALUES_PANEL(2, 1)
VALUES_PANEL(2, 2)
VALUES_PANEL(2, 3)
VALUES_PANEL(2, 4)
VALUES_PANEL(3, 1)
VALUES_PANEL(3, 2)
VALUES_PANEL(3, 3)
VALUES_PANEL(3, 4)
#undef VALUES_PANEL

/* outputs[i * head_size + d] = sum over parts and positions of weight(i, j) * value(j, d), over the first n_last
 * positions of the last part, a multiple of 16. Fetches n_parts parts of other values meanwhile, if fetch is not
 * NULL. */
static void products_of_first_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                                     size_t n_parts, size_t n_last, size_t head_size, int32_t *outputs,
                                     const int8_t *const *fetch) {
    static ValuesPanel *const panels[VALUE_ROWS][VALUE_VECTORS] = {
        { values_panel_1_1, values_panel_1_2, values_panel_1_3, values_panel_1_4 },
        { values_panel_2_1, values_panel_2_2, values_panel_2_3, values_panel_2_4 },
        { values_panel_3_1, values_panel_3_2, values_panel_3_3, values_panel_3_4 },
    };
    const size_t n_vectors = head_size / 16, n_columns = (n_vectors + VALUE_VECTORS - 1) / VALUE_VECTORS,
                 n_panels = (n + VALUE_ROWS - 1) / VALUE_ROWS;

    for (size_t column = 0, vector = 0, end; column < n_columns; column++, vector = end) {
        end = (column + 1) * n_vectors / n_columns;
        for (size_t panel = 0, i = 0, end_row; panel < n_panels; panel++, i = end_row) {
            end_row = (panel + 1) * n / n_panels;
            panels[end_row - i - 1][end - vector - 1](weights + i * stride_bytes, stride_bytes, values, n_parts, n_last,
                                                      head_size, 16 * vector, outputs + i * head_size,
                                                      panel ? NULL : fetch);
        }
    }
}

static void products_of_values(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                               size_t n_parts, size_t head_size, int32_t *outputs) {
    products_of_first_values(weights, stride_bytes, n, values, n_parts, KV_BLOCK, head_size, outputs, NULL);
}

#endif
