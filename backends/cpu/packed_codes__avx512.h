/* Codes of a packed tile in registers of 64 bytes: one load, one shift and one mask for the weightlets of a register
 * (two or three times where a code has that many components; quant/pack.h). bits and i are constants after inlining. */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_CODES__AVX512_H
#define COORDGEN_BACKENDS_CPU_PACKED_CODES__AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers of half a tile: every component has whole stripes of them. */
#define CODES_HALF_REGISTERS 8

#define CODES_INLINE static inline __attribute__((always_inline, unused))

/* Weightlets of register i of a half tile, whose stripes of one component begin at `stripes`, added to what is in
 * codes; `to`: where the lowest bit of the weightlet goes. The shift is one of 16 bits: what it brings from the byte
 * beside is masked away. */
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

/* Codes of register 8 * half + i, shifted up by `up` (0 or 1). */
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

#endif
