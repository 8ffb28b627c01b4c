// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "backends/numeric/unroll.h"
#include "base/system/cpu.h"
#include "quant/format/grid.h"
#include "test/bench/int4_int8.h"

/* Unpacks 16 bytes of nibble pairs to 32 codes in order. Each byte becomes 16 bits; a shift by 4 moves its high nibble
 * to the upper byte. */
static inline __attribute__((always_inline)) __m256i codes_of(const uint8_t *pairs) {
    const __m256i wide = _mm256_cvtepu8_epi16(_mm_load_si128((const __m128i *)pairs));

    return _mm256_and_si256(_mm256_or_si256(wide, _mm256_slli_epi16(wide, 4)), _mm256_set1_epi8(15));
}

static inline __attribute__((always_inline)) __m256i add_pairs(__m256i sum, __m256i pairs) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline __attribute__((always_inline)) int32_t total(__m256i wide) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));

    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(1, 0, 3, 2)));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(2, 3, 0, 1))));
}

/* Codes are unsigned: 2 x 15 x 127 never saturates vpmaddubsw. */
static int32_t nibble_sum(const uint8_t *row, const int8_t *x, size_t k) {
    __m256i sums[2] = { _mm256_setzero_si256(), _mm256_setzero_si256() };

    UNROLL_BY_4
    for (size_t i = 0; i < k; i += 64, row += 32) {
        sums[0] = add_pairs(sums[0], _mm256_maddubs_epi16(codes_of(row), _mm256_load_si256((const __m256i *)(x + i))));
        sums[1] = add_pairs(sums[1],
                            _mm256_maddubs_epi16(codes_of(row + 16), _mm256_load_si256((const __m256i *)(x + i + 32))));
    }
    return total(_mm256_add_epi32(sums[0], sums[1]));
}

/* |w| unsigned and x with the sign of w, as in int8_product__avx2: never saturated. */
static inline __attribute__((always_inline)) __m256i level_pairs(const uint8_t *row, const int8_t *x) {
    const __m256i w = _mm256_load_si256((const __m256i *)row);

    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(_mm256_load_si256((const __m256i *)x), w));
}

static int32_t level_sum(const uint8_t *row, const int8_t *x, size_t k) {
    __m256i sums[2] = { _mm256_setzero_si256(), _mm256_setzero_si256() };

    UNROLL_BY_4
    for (size_t i = 0; i < k; i += 64) {
        sums[0] = add_pairs(sums[0], level_pairs(row + i, x + i));
        sums[1] = add_pairs(sums[1], level_pairs(row + i + 32, x + i + 32));
    }
    return total(_mm256_add_epi32(sums[0], sums[1]));
}

static void product(const Int4Int8Matrix *matrix, const Int4Int8Input *input, size_t begin, size_t end, float *y) {
    for (size_t o = begin; o < end; o++) {
        const uint8_t *row = matrix->rows + matrix->offsets[o];
        const int bits = matrix->bits[o];
        int32_t sum;

        if (int4_int8_is_nibbles(bits))
            sum = grid_factor(bits) * nibble_sum(row, input->x, matrix->k_padded) - grid_offset(bits) * input->sum;
        else
            sum = level_sum(row, input->x, matrix->k_padded);
        y[o] = int4_int8_output(sum, input->scale, matrix->scales[o]);
    }
}

static void expand(const Int4Int8Matrix *matrix, size_t channel, int8_t *q) {
    const uint8_t *row = matrix->rows + matrix->offsets[channel];
    const int bits = matrix->bits[channel];
    const size_t k = matrix->k_padded; /* a local copy: the compiler must assume that q aliases anything */

    if (int4_int8_is_nibbles(bits)) {
        const __m256i offset = _mm256_set1_epi8((char)grid_offset(bits));

        UNROLL_BY_4
        for (size_t i = 0; i < k; i += 32, row += 16) {
            const __m256i codes = codes_of(row);

            _mm256_store_si256((__m256i *)(q + i), _mm256_sub_epi8(_mm256_add_epi8(codes, codes), offset));
        }
    } else {
        UNROLL_BY_4
        for (size_t i = 0; i < k; i += 32)
            _mm256_store_si256((__m256i *)(q + i), _mm256_load_si256((const __m256i *)(row + i)));
    }
}

const Int4Int8Ops int4_int8__avx2 = { "int4_int8__avx2", CPU_AVX2, product, expand };
