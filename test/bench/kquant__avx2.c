// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "backends/numeric/unroll.h"
#include "base/system/cpu.h"
#include "test/bench/kquant.h"
#include "test/bench/kquant_factors.h"

/* Sums in float32 of the lanes of one output: products, and minima times the inputs' sums. */
typedef struct Sums {
    __m256 products;
    __m128 minima;
} Sums;

static inline __attribute__((always_inline)) float half(uint16_t bits) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

/* Returns the factors as bytes: scales 0..7, then minima 0..7. */
static inline __attribute__((always_inline)) __m128i factors_of(const uint8_t packed[12]) {
    uint64_t first, second;

    kquant_factors(packed, &first, &second);
    return _mm_shuffle_epi32(_mm_set_epi64x((long long)second, (long long)first), _MM_SHUFFLE(3, 1, 2, 0));
}

/* Returns the fifth bits of sub-block s, worth 16, in the bytes of a register. */
static inline __attribute__((always_inline)) __m256i fifth(__m256i high, int s) {
    const __m256i sixteen = _mm256_set1_epi8(16);

    return _mm256_and_si256(s < 4 ? _mm256_slli_epi16(high, 4 - s) : _mm256_srli_epi16(high, s - 4), sixteen);
}

/**
 * block_product() - multiply one super-block of one output
 * @high: the 32 bytes of fifth bits; NULL with 4 bits
 *
 * vpmaddubsw takes unsigned codes up to 31 and |x| <= 127; 2 x 31 x 127 = 7874 never saturates. vpmaddwd multiplies the
 * pairs by the sub-block's scale and adds them up in int32, in which 63 x 7874 x 2 x 16 fits.
 */
static inline __attribute__((always_inline)) Sums block_product(Sums sums, uint16_t d, uint16_t dmin,
                                                                const uint8_t packed[12], const uint8_t *low,
                                                                const uint8_t *high, const KquantInputs *inputs) {
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m128i factors = factors_of(packed), scales16 = _mm_cvtepu8_epi16(factors);
    const __m256i scales = _mm256_broadcastsi128_si256(scales16);
    const __m256i fifths = high ? _mm256_loadu_si256((const __m256i *)high) : _mm256_setzero_si256();
    const __m128i minima =
        _mm_madd_epi16(_mm_cvtepu8_epi16(_mm_srli_si128(factors, 8)), _mm_load_si128((const __m128i *)inputs->sums));
    __m256i sum = _mm256_setzero_si256();

    UNROLL
    for (int c = 0; c < KQUANT_SUBS / 2; c++) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(low + c * KQUANT_SUB));
        __m256i even = _mm256_and_si256(bytes, nibble);
        __m256i odd = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
        /* int16 number 2c, and 2c + 1, of the scales in every place */
        const __m256i pick_even = _mm256_set1_epi16((short)(0x0100 + 0x0202 * 2 * c)),
                      pick_odd = _mm256_set1_epi16((short)(0x0302 + 0x0202 * 2 * c));

        if (high) {
            even = _mm256_or_si256(even, fifth(fifths, 2 * c));
            odd = _mm256_or_si256(odd, fifth(fifths, 2 * c + 1));
        }
        even = _mm256_maddubs_epi16(even, _mm256_load_si256((const __m256i *)(inputs->x + c * KQUANT_SUB)));
        odd = _mm256_maddubs_epi16(odd, _mm256_load_si256((const __m256i *)(inputs->x + 128 + c * KQUANT_SUB)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even, _mm256_shuffle_epi8(scales, pick_even)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(odd, _mm256_shuffle_epi8(scales, pick_odd)));
    }
    sums.products = _mm256_fmadd_ps(_mm256_set1_ps(inputs->scale * half(d)), _mm256_cvtepi32_ps(sum), sums.products);
    sums.minima = _mm_fmadd_ps(_mm_set1_ps(inputs->scale * half(dmin)), _mm_cvtepi32_ps(minima), sums.minima);
    return sums;
}

static inline __attribute__((always_inline)) float total(Sums sums) {
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(sums.products), _mm256_extractf128_ps(sums.products, 1));

    sum = _mm_sub_ps(sum, sums.minima);
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

static void product(const KquantMatrix *matrix, const KquantInputs *inputs, size_t begin, size_t end, float *y) {
    for (size_t o = begin; o < end; o++) {
        Sums sums = { _mm256_setzero_ps(), _mm_setzero_ps() };

        if (matrix->bits == 4) {
            const KquantBlock4 *block = (const KquantBlock4 *)matrix->blocks + o * matrix->k_blocks;

            for (size_t b = 0; b < matrix->k_blocks; b++, block++)
                sums = block_product(sums, block->d, block->dmin, block->scales, block->low, NULL, &inputs[b]);
        } else {
            const KquantBlock5 *block = (const KquantBlock5 *)matrix->blocks + o * matrix->k_blocks;

            for (size_t b = 0; b < matrix->k_blocks; b++, block++)
                sums = block_product(sums, block->d, block->dmin, block->scales, block->low, block->high, &inputs[b]);
        }
        y[o] = total(sums);
    }
}

static inline __attribute__((always_inline)) void block_expand(const uint8_t packed[12], const uint8_t *low,
                                                               const uint8_t *high, uint8_t *codes, uint8_t *factors) {
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i fifths = high ? _mm256_loadu_si256((const __m256i *)high) : _mm256_setzero_si256();

    _mm_storeu_si128((__m128i *)factors, factors_of(packed));
    UNROLL
    for (int c = 0; c < KQUANT_SUBS / 2; c++) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(low + c * KQUANT_SUB));
        __m256i even = _mm256_and_si256(bytes, nibble);
        __m256i odd = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);

        if (high) {
            even = _mm256_or_si256(even, fifth(fifths, 2 * c));
            odd = _mm256_or_si256(odd, fifth(fifths, 2 * c + 1));
        }
        _mm256_storeu_si256((__m256i *)(codes + 2 * c * KQUANT_SUB), even);
        _mm256_storeu_si256((__m256i *)(codes + (2 * c + 1) * KQUANT_SUB), odd);
    }
}

static void expand(const KquantMatrix *matrix, size_t row, uint8_t *codes, uint8_t *factors) {
    const size_t k_blocks = matrix->k_blocks; /* a local copy: the compiler must assume that codes alias anything */

    if (matrix->bits == 4) {
        const KquantBlock4 *block = (const KquantBlock4 *)matrix->blocks + row * matrix->k_blocks;

        for (size_t b = 0; b < k_blocks; b++, block++, codes += KQUANT_BLOCK, factors += 16)
            block_expand(block->scales, block->low, NULL, codes, factors);
    } else {
        const KquantBlock5 *block = (const KquantBlock5 *)matrix->blocks + row * matrix->k_blocks;

        for (size_t b = 0; b < k_blocks; b++, block++, codes += KQUANT_BLOCK, factors += 16)
            block_expand(block->scales, block->low, block->high, codes, factors);
    }
}

const KquantOps kquant__avx2 = { "kquant__avx2", CPU_AVX2, product, expand };
