// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "backends/numeric/unroll.h"
#include "base/system/cpu.h"
#include "test/bench/kquant.h"
#include "test/bench/kquant_factors.h"

typedef struct Sums {
    __m512 products;
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

/* Adds 16 to the codes whose fifth bit is set: bits of sub-block `first` for the lower half, of `second` for the
 * upper. */
static inline __attribute__((always_inline)) __m512i with_fifth(__m512i codes, __m512i high, int first, int second) {
    const __m512i bits =
        _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << first)), _mm256_set1_epi8((char)(1 << second)), 1);

    return _mm512_mask_add_epi8(codes, _mm512_test_epi8_mask(high, bits), codes, _mm512_set1_epi8(16));
}

/**
 * block_product() - multiply one super-block of one output
 * @high: the 32 bytes of fifth bits; NULL with 4 bits
 *
 * 64 bytes of nibbles are sub-blocks 4p, 4p + 2 (low) and 4p + 1, 4p + 3 (high). vpdpbusd gives sums of 4 products, at
 * most 4 x 31 x 127 = 15748, so that both registers pack to int16 without loss. One vpdpwssd multiplies by the scales
 * and adds up in int32. vpackssdw works on 128 bits: 4 sums of the low register, 4 of the high one.
 */
static inline __attribute__((always_inline)) Sums block_product(Sums sums, uint16_t d, uint16_t dmin,
                                                                const uint8_t packed[12], const uint8_t *low,
                                                                const uint8_t *high, const KquantInputs *inputs) {
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m128i factors = factors_of(packed);
    const __m512i scales = _mm512_castsi128_si512(_mm_cvtepu8_epi16(factors));
    const __m512i fifths =
        high ? _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)high)) : _mm512_setzero_si512();
    const __m128i minima =
        _mm_madd_epi16(_mm_cvtepu8_epi16(_mm_srli_si128(factors, 8)), _mm_load_si128((const __m128i *)inputs->sums));
    __m512i sum = _mm512_setzero_si512();

    UNROLL
    for (int p = 0; p < KQUANT_SUBS / 4; p++) {
        const __m512i bytes = _mm512_loadu_si512(low + 64 * p);
        __m512i even = _mm512_and_si512(bytes, nibble);
        __m512i odd = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), nibble);
        /* 4 int16 each of the scales 4p, 4p + 1 in the lower 128-bit parts, 4p + 2, 4p + 3 in the upper ones */
        const long long four = 0x0001000100010001;
        const __m512i pick =
            _mm512_add_epi16(_mm512_set1_epi16((short)(4 * p)),
                             _mm512_set_epi64(3 * four, 2 * four, 3 * four, 2 * four, four, 0, four, 0));

        if (high) {
            even = with_fifth(even, fifths, 4 * p, 4 * p + 2);
            odd = with_fifth(odd, fifths, 4 * p + 1, 4 * p + 3);
        }
        even = _mm512_dpbusd_epi32(_mm512_setzero_si512(), even, _mm512_load_si512(inputs->x + 64 * p));
        odd = _mm512_dpbusd_epi32(_mm512_setzero_si512(), odd, _mm512_load_si512(inputs->x + 128 + 64 * p));
        sum = _mm512_dpwssd_epi32(sum, _mm512_packs_epi32(even, odd), _mm512_permutexvar_epi16(pick, scales));
    }
    sums.products = _mm512_fmadd_ps(_mm512_set1_ps(inputs->scale * half(d)), _mm512_cvtepi32_ps(sum), sums.products);
    sums.minima = _mm_fmadd_ps(_mm_set1_ps(inputs->scale * half(dmin)), _mm_cvtepi32_ps(minima), sums.minima);
    return sums;
}

static inline __attribute__((always_inline)) float total(Sums sums) {
    __m256 wide = _mm256_add_ps(_mm512_castps512_ps256(sums.products), _mm512_extractf32x8_ps(sums.products, 1));
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(wide), _mm256_extractf128_ps(wide, 1));

    sum = _mm_sub_ps(sum, sums.minima);
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

static void product(const KquantMatrix *matrix, const KquantInputs *inputs, size_t begin, size_t end, float *y) {
    for (size_t o = begin; o < end; o++) {
        Sums sums = { _mm512_setzero_ps(), _mm_setzero_ps() };

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

/* Expands 32 bytes twice, the upper copy shifted: sub-blocks 2c and 2c + 1 in one register, in logical order. */
static inline __attribute__((always_inline)) void block_expand(const uint8_t packed[12], const uint8_t *low,
                                                               const uint8_t *high, uint8_t *codes, uint8_t *factors) {
    const __m512i nibble = _mm512_set1_epi8(15), shift = _mm512_set_epi64(4, 4, 4, 4, 0, 0, 0, 0);
    const __m512i fifths =
        high ? _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)high)) : _mm512_setzero_si512();

    _mm_storeu_si128((__m128i *)factors, factors_of(packed));
    UNROLL
    for (int c = 0; c < KQUANT_SUBS / 2; c++) {
        const __m512i bytes = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(low + c * KQUANT_SUB)));
        __m512i values = _mm512_and_si512(_mm512_srlv_epi64(bytes, shift), nibble);

        if (high)
            values = with_fifth(values, fifths, 2 * c, 2 * c + 1);
        _mm512_storeu_si512(codes + 2 * c * KQUANT_SUB, values);
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

const KquantOps kquant__avx512vnni = { "kquant__avx512vnni", CPU_AVX2 | CPU_AVX512 | CPU_AVX512VNNI, product, expand };
