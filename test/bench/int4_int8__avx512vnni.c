// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "backends/numeric/unroll.h"
#include "base/system/cpu.h"
#include "quant/format/grid.h"
#include "test/bench/int4_int8.h"

/* Unpacks 32 bytes of nibble pairs to 64 codes in order. Each byte becomes 16 bits; a shift by 4 moves its high nibble
 * to the upper byte. (wide | shifted) & 0x0f is one instruction. */
static inline __attribute__((always_inline)) __m512i codes_of(const uint8_t *pairs) {
    const __m512i wide = _mm512_cvtepu8_epi16(_mm256_load_si256((const __m256i *)pairs));

    return _mm512_ternarylogic_epi32(wide, _mm512_slli_epi16(wide, 4), _mm512_set1_epi8(15), 0xa8);
}

/* Number of interleaved steps of 64 inputs, each with its own sum. */
enum {
    PARTS = 4,
    STEP = 64
};

static inline __attribute__((always_inline)) __m512i nibble_step(__m512i sum, const uint8_t *row, const void *x) {
    return _mm512_dpbusd_epi32(sum, codes_of(row), _mm512_load_si512(x));
}

/* x is unsigned here. */
static inline __attribute__((always_inline)) __m512i level_step(__m512i sum, const uint8_t *row, const void *x) {
    return _mm512_dpbusd_epi32(sum, _mm512_load_si512(x), _mm512_load_si512(row));
}

typedef __m512i Step(__m512i sum, const uint8_t *row, const void *x);

/* Returns the sum over k inputs; a step reads row_bytes. */
static inline __attribute__((always_inline)) int32_t steps(const uint8_t *row, const uint8_t *x, size_t k, Step *step,
                                                           const size_t row_bytes) {
    __m512i sums[PARTS];
    size_t i = 0;

    UNROLL
    for (size_t part = 0; part < PARTS; part++)
        sums[part] = _mm512_setzero_si512();
    for (; i + PARTS * STEP <= k; i += PARTS * STEP, row += PARTS * row_bytes, x += PARTS * STEP)
        UNROLL
    for (size_t part = 0; part < PARTS; part++) {
        sums[part] = step(sums[part], row + part * row_bytes, x + part * STEP);
        __asm__("" : "+v"(sums[part])); /* keeps gcc 12 from moving it to another register and back */
    }
    sums[0] = _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), _mm512_add_epi32(sums[2], sums[3]));
    for (; i < k; i += STEP, row += row_bytes, x += STEP)
        sums[0] = step(sums[0], row, x);
    return _mm512_reduce_add_epi32(sums[0]);
}

static int32_t nibble_sum(const uint8_t *row, const int8_t *x, size_t k) {
    return steps(row, (const uint8_t *)x, k, nibble_step, STEP / 2);
}

/* sum (x + 128) w = sum x w + 128 sum w; the caller subtracts the second part. */
static int32_t level_sum(const uint8_t *row, const uint8_t *x, size_t k) {
    return steps(row, x, k, level_step, STEP);
}

static void product(const Int4Int8Matrix *matrix, const Int4Int8Input *input, size_t begin, size_t end, float *y) {
    for (size_t o = begin; o < end; o++) {
        const uint8_t *row = matrix->rows + matrix->offsets[o];
        const int bits = matrix->bits[o];
        int32_t sum;

        if (int4_int8_is_nibbles(bits))
            sum = grid_factor(bits) * nibble_sum(row, input->x, matrix->k_padded) - grid_offset(bits) * input->sum;
        else
            sum = level_sum(row, input->x_unsigned, matrix->k_padded) - 128 * matrix->sums[o];
        y[o] = int4_int8_output(sum, input->scale, matrix->scales[o]);
    }
}

static void expand(const Int4Int8Matrix *matrix, size_t channel, int8_t *q) {
    const uint8_t *row = matrix->rows + matrix->offsets[channel];
    const int bits = matrix->bits[channel];
    const size_t k = matrix->k_padded; /* a local copy: the compiler must assume that q aliases anything */

    if (int4_int8_is_nibbles(bits)) {
        const __m512i offset = _mm512_set1_epi8((char)grid_offset(bits));

        UNROLL_BY_4
        for (size_t i = 0; i < k; i += STEP, row += STEP / 2) {
            const __m512i codes = codes_of(row);

            _mm512_store_si512(q + i, _mm512_sub_epi8(_mm512_add_epi8(codes, codes), offset));
        }
    } else {
        UNROLL_BY_4
        for (size_t i = 0; i < k; i += STEP)
            _mm512_store_si512(q + i, _mm512_load_si512(row + i));
    }
}

const Int4Int8Ops int4_int8__avx512vnni = { "int4_int8__avx512vnni", CPU_AVX2 | CPU_AVX512 | CPU_AVX512VNNI, product,
                                            expand };
