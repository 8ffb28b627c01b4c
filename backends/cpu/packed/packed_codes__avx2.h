// SPDX-License-Identifier: Apache-2.0
/* Codes of a packed tile in registers of 32 bytes. A register holds one side of the layout's register, the first or the
 * last 8 channels. bits, i and side are constants after inlining (packed_codes__avx512.h handles whole registers). */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_CODES__AVX2_H
#define COORDGEN_BACKENDS_CPU_PACKED_CODES__AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/numeric/unroll.h"
#include "quant/format/grid.h"

/* Registers of half a tile: every component has whole stripes of them. */
#define CODES_HALF_REGISTERS 8

#define CODES_INLINE static inline __attribute__((always_inline, unused))

/* Returns the weightlets of register i of a half tile, whose stripes of one component begin at `stripes`; `to`: the
 * place of a weightlet's lowest bit. The shift works on 16 bits; bits from the neighbouring byte are masked away. */
CODES_INLINE __m256i codes_weightlets(const uint8_t *stripes, int i, int side, int width, int to) {
    const int place = 8 - width - i * width % 8;
    __m256i stripe = _mm256_load_si256((const __m256i *)(stripes + i * width / 8 * 64 + side * 32));

    if (place > to)
        stripe = _mm256_srli_epi16(stripe, place - to);
    else if (place < to)
        stripe = _mm256_slli_epi16(stripe, to - place);
    return _mm256_and_si256(stripe, _mm256_set1_epi8((char)(((1 << width) - 1) << to)));
}

/* Returns the codes of register 8 * half + i, shifted up by `up` (0 or 1). */
CODES_INLINE __m256i codes_register(const uint8_t *tile, int bits, size_t half, int i, int side, int up) {
    const int fours = bits / 4, twos = bits / 2 % 2, ones = bits % 2;
    __m256i codes = _mm256_setzero_si256();

    if (fours)
        codes = codes_weightlets(tile + half * 256, i, side, 4, bits - 4 + up);
    if (fours > 1)
        codes = _mm256_or_si256(codes, codes_weightlets(tile + 512 + half * 256, i, side, 4, up));
    tile += fours * 512;
    if (twos)
        codes = _mm256_or_si256(codes, codes_weightlets(tile + half * 128, i, side, 2, ones + up));
    tile += twos * 256;
    if (ones)
        codes = _mm256_or_si256(codes, codes_weightlets(tile + half * 64, i, side, 1, up));
    return codes;
}

/* Levels of GRID_NORMAL. For codes of more than 4 bits, vpshufb looks up the upper 4, which lie apart, in one register
 * for each value of the lower ones. Both halves of a register have the 16 levels. */
typedef struct CodesTable {
    __m256i part[GRID_TABLE_CODES / 16];
} CodesTable;

/* Bytes of first and second at even places, then at odd ones: a step that moves the lowest bit of a place to the
 * top. */
CODES_INLINE __m128i codes_even(__m128i first, __m128i second) {
    const __m128i low = _mm_set1_epi16(0xff);

    return _mm_packus_epi16(_mm_and_si128(first, low), _mm_and_si128(second, low));
}

CODES_INLINE __m128i codes_odd(__m128i first, __m128i second) {
    return _mm_packus_epi16(_mm_srli_epi16(first, 8), _mm_srli_epi16(second, 8));
}

/* Sorts the table by code, with one such step for each lower bit of the codes. */
CODES_INLINE CodesTable codes_table(int bits) {
    const int lower = bits > 4 ? bits - 4 : 0, n_parts = 1 << lower;
    __m128i levels[2][GRID_TABLE_CODES / 16];
    CodesTable table;

    UNROLL
    for (int i = 0; i < n_parts; i++)
        levels[0][i] = _mm_load_si128((const __m128i *)(grid_normal_levels[bits] + i * 16));
    UNROLL
    for (int step = 0; step < lower; step++)
        UNROLL
    for (int i = 0; i < n_parts / 2; i++) {
        const __m128i *from = &levels[step % 2][2 * i];

        levels[(step + 1) % 2][i] = codes_even(from[0], from[1]);
        levels[(step + 1) % 2][n_parts / 2 + i] = codes_odd(from[0], from[1]);
    }
    UNROLL
    for (int i = 0; i < n_parts; i++)
        table.part[i] = _mm256_broadcastsi128_si256(levels[lower % 2][i]);
    return table;
}

/* Returns bit `bit` of a register's weightlets as the top bit of each byte, by which vpblendvb selects. */
CODES_INLINE __m256i codes_top(const uint8_t *stripes, int i, int side, int width, int bit) {
    const int place = 8 - width - i * width % 8 + bit;

    return _mm256_slli_epi16(_mm256_load_si256((const __m256i *)(stripes + i * width / 8 * 64 + side * 32)), 7 - place);
}

CODES_INLINE __m256i codes_choose(const CodesTable *table, __m256i upper, int part, __m256i second) {
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(table->part[part], upper),
                              _mm256_shuffle_epi8(table->part[part + 1], upper), second);
}

/* Returns the levels of register 8 * half + i. */
CODES_INLINE __m256i codes_levels(const CodesTable *table, const uint8_t *tile, int bits, size_t half, int i,
                                  int side) {
    const uint8_t *twos = tile + 512 + half * 128, *ones = tile + 512 + (bits == 7) * 256 + half * 64;
    __m256i upper, one, low, high;

    if (bits <= 4)
        return _mm256_shuffle_epi8(table->part[0], codes_register(tile, bits, half, i, side, 0));
    upper = codes_weightlets(tile + half * 256, i, side, 4, 0);
    if (bits == 5)
        return codes_choose(table, upper, 0, codes_top(ones, i, side, 1, 0));
    one = bits == 6 ? codes_top(twos, i, side, 2, 0) : codes_top(ones, i, side, 1, 0);
    low = codes_choose(table, upper, 0, one);
    high = codes_choose(table, upper, 2, one);
    if (bits == 6)
        return _mm256_blendv_epi8(low, high, codes_top(twos, i, side, 2, 1));
    low = _mm256_blendv_epi8(low, high, codes_top(twos, i, side, 2, 0));
    high = _mm256_blendv_epi8(codes_choose(table, upper, 4, one), codes_choose(table, upper, 6, one),
                              codes_top(twos, i, side, 2, 0));
    return _mm256_blendv_epi8(low, high, codes_top(twos, i, side, 2, 1));
}

#endif
