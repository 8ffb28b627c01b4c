/* Codes of a packed tile in registers of 32 bytes: a side of a register of the layout, the first or the last 8
 * channels. bits, i and side are constants after inlining (packed_codes__avx512.h has the same for whole registers). */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_CODES__AVX2_H
#define COORDGEN_BACKENDS_CPU_PACKED_CODES__AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Registers of half a tile: every component has whole stripes of them. */
#define CODES_HALF_REGISTERS 8

#define CODES_INLINE static inline __attribute__((always_inline, unused))

/* Weightlets of register i of a half tile, whose stripes of one component begin at `stripes`; `to`: where the lowest
 * bit of the weightlet goes. The shift is one of 16 bits: what it brings from the byte beside is masked away. */
CODES_INLINE __m256i codes_weightlets(const uint8_t *stripes, int i, int side, int width, int to) {
    const int place = 8 - width - i * width % 8;
    __m256i stripe = _mm256_load_si256((const __m256i *)(stripes + i * width / 8 * 64 + side * 32));

    if (place > to)
        stripe = _mm256_srli_epi16(stripe, place - to);
    else if (place < to)
        stripe = _mm256_slli_epi16(stripe, to - place);
    return _mm256_and_si256(stripe, _mm256_set1_epi8((char)(((1 << width) - 1) << to)));
}

/* Codes of register 8 * half + i, shifted up by `up` (0 or 1). */
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

#endif
