// SPDX-License-Identifier: Apache-2.0
/* Codes of a packed tile in registers of 64 bytes, and their levels if the grid has a table. One load, one shift and
 * one mask give a register's weightlets (two or three times if a code has that many components; pack.h). bits and i are
 * constants after inlining. */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_CODES__AVX512_H
#define COORDGEN_BACKENDS_CPU_PACKED_CODES__AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/numeric/unroll.h"
#include "quant/format/grid.h"

/* Registers of half a tile: every component has whole stripes of them. */
#define CODES_HALF_REGISTERS 8

#define CODES_INLINE static inline __attribute__((always_inline, unused))

/* Adds to `codes` the weightlets of register i of a half tile, whose stripes of one component begin at `stripes`; `to`:
 * the place of a weightlet's lowest bit. The shift works on 16 bits; bits from the neighbouring byte are masked
 * away. */
CODES_INLINE __m512i codes_merge(__m512i codes, bool is_first, const uint8_t *stripes, int i, int width, int to) {
    const int place = 8 - width - i * width % 8;
    const __m512i mask = _mm512_set1_epi8((char)(((1 << width) - 1) << to));
    __m512i stripe = _mm512_load_si512(stripes + i * width / 8 * 64);

    if (place > to)
        stripe = _mm512_srli_epi16(stripe, (unsigned int)(place - to));
    else if (place < to)
        stripe = _mm512_slli_epi16(stripe, (unsigned int)(to - place));
    /* codes | (stripe & mask) */
    return is_first ? _mm512_and_si512(stripe, mask) : _mm512_ternarylogic_epi32(codes, stripe, mask, 0xf8);
}

/* Returns the codes of register 8 * half + i, shifted up by `up` (0 or 1). */
CODES_INLINE __m512i codes_register(const uint8_t *tile, int bits, size_t half, int i, int up) {
    const int fours = bits / 4, twos = bits / 2 % 2, ones = bits % 2;
    __m512i codes = _mm512_setzero_si512();

    if (fours)
        codes = codes_merge(codes, true, tile + half * 256, i, 4, bits - 4 + up);
    if (fours > 1)
        codes = codes_merge(codes, false, tile + 512 + half * 256, i, 4, up);
    tile += fours * 512;
    if (twos)
        codes = codes_merge(codes, !fours, tile + half * 128, i, 2, ones + up);
    tile += twos * 256;
    if (ones)
        codes = codes_merge(codes, !fours && !twos, tile + half * 64, i, 1, up);
    return codes;
}

/* Levels of GRID_NORMAL by code, each with the bits of `flipped` inverted. With VBMI a register has 64 levels, and one
 * permutation looks up all codes. Without it a register has 16, repeated in its four parts. */
#if defined(__AVX512VBMI__)
#define CODES_TABLE_REGISTERS 2
#else
#define CODES_TABLE_REGISTERS 8
#endif

typedef struct CodesTable {
    __m512i part[CODES_TABLE_REGISTERS];
} CodesTable;

CODES_INLINE CodesTable codes_table(int bits, uint8_t flipped) {
    const int8_t *levels = grid_normal_levels[bits];
    const __m512i flip = _mm512_set1_epi8((char)flipped);
    CodesTable table;

    UNROLL
    for (int i = 0; i < CODES_TABLE_REGISTERS; i++) {
#if defined(__AVX512VBMI__)
        table.part[i] = _mm512_loadu_si512(levels + i * 64);
#else
        table.part[i] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(levels + i * 16)));
#endif
        table.part[i] = _mm512_xor_si512(table.part[i], flip);
    }
    return table;
}

#if defined(__AVX512VBMI__)
CODES_INLINE __m512i codes_levels(const CodesTable *table, __m512i codes, int bits) {
    return bits == 7 ? _mm512_permutex2var_epi8(table->part[0], codes, table->part[1])
                     : _mm512_permutexvar_epi8(codes, table->part[0]);
}
#else
/* Looks up levels in 2^(bits - 4) registers of the table from `first` on: the low 4 bits of a code select within a
 * register, the higher bits select the register. */
CODES_INLINE __m512i codes_levels_from(const CodesTable *table, __m512i codes, int bits, int first) {
    const __mmask64 upper = bits > 4 ? _mm512_test_epi8_mask(codes, _mm512_set1_epi8((char)(1 << (bits - 1)))) : 0;

    if (bits <= 4)
        return _mm512_shuffle_epi8(table->part[first], codes);
    if (bits == 5)
        return _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table->part[first], codes), upper, table->part[first + 1],
                                        codes);
    if (bits == 6) {
        const __mmask64 odd = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(16));
        const __m512i low = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table->part[first], codes), odd,
                                                     table->part[first + 1], codes),
                      high = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table->part[first + 2], codes), odd,
                                                      table->part[first + 3], codes);

        return _mm512_mask_mov_epi8(low, upper, high);
    }
    return codes;
}

CODES_INLINE __m512i codes_levels(const CodesTable *table, __m512i codes, int bits) {
    if (bits < 7)
        return codes_levels_from(table, codes, bits, 0);
    return _mm512_mask_mov_epi8(codes_levels_from(table, codes, 6, 0),
                                _mm512_test_epi8_mask(codes, _mm512_set1_epi8(64)),
                                codes_levels_from(table, codes, 6, 4));
}
#endif

#endif
