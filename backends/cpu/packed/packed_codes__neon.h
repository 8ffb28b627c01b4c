// SPDX-License-Identifier: Apache-2.0
/* Codes of a packed tile in registers of 16 bytes. A register holds a quarter of the layout's register, 4 channels.
 * bits, i and quarter are constants after inlining (packed_codes__avx512.h handles whole registers). */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_CODES__NEON_H
#define COORDGEN_BACKENDS_CPU_PACKED_CODES__NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/numeric/unroll.h"
#include "quant/format/grid.h"

/* Registers of half a tile: every component has whole stripes of them. */
#define CODES_HALF_REGISTERS 8

#define CODES_INLINE static inline __attribute__((always_inline, unused))

/* Returns the weightlets of register i of a half tile, whose stripes of one component begin at `stripes`: in the lowest
 * bits, below those of neighbouring registers. */
CODES_INLINE uint8x16_t codes_weightlets(const uint8_t *stripes, int i, int quarter, int width) {
    return vld1q_u8(stripes + i * width / 8 * 64 + quarter * 16) >> (8 - width - i * width % 8);
}

/* SLI: keeps the `bits` lowest bits of `low` and puts the bits of `high` above them. */
CODES_INLINE uint8x16_t codes_join(uint8x16_t low, uint8x16_t high, int bits) {
    return bits == 1   ? vsliq_n_u8(low, high, 1)
           : bits == 2 ? vsliq_n_u8(low, high, 2)
           : bits == 3 ? vsliq_n_u8(low, high, 3)
                       : vsliq_n_u8(low, high, 4);
}

/* Returns the codes of register 8 * half + i. Each component overwrites bits of other registers that the one below
 * left. At the end one mask removes those of the highest component, unless it comes from the top of its bytes. */
CODES_INLINE uint8x16_t codes_register(const uint8_t *tile, int bits, size_t half, int i, int quarter) {
    const int fours = bits / 4, twos = bits / 2 % 2, ones = bits % 2, top = fours ? 4 : twos ? 2 : 1;
    const uint8_t *four = tile + half * 256, *two = tile + fours * 512 + half * 128,
                  *one = tile + fours * 512 + twos * 256 + half * 64;
    uint8x16_t codes = vdupq_n_u8(0);

    if (ones)
        codes = codes_weightlets(one, i, quarter, 1);
    if (twos)
        codes =
            ones ? codes_join(codes, codes_weightlets(two, i, quarter, 2), 1) : codes_weightlets(two, i, quarter, 2);
    if (fours > 1)
        codes = codes_weightlets(four + 512, i, quarter, 4);
    if (fours)
        codes = bits > 4 ? codes_join(codes, codes_weightlets(four, i, quarter, 4), bits - 4)
                         : codes_weightlets(four, i, quarter, 4);
    return bits == 8 || i * top % 8 == 0 ? codes : codes & (uint8_t)((1 << bits) - 1);
}

/* Levels of GRID_NORMAL by code: 64 levels in four registers, which one instruction looks up (TBL; TBX leaves bytes
 * with other indices alone). */
typedef struct CodesTable {
    uint8x16x4_t part[2];
} CodesTable;

CODES_INLINE CodesTable codes_table(int bits) {
    CodesTable table;

    UNROLL
    for (int i = 0; i < GRID_TABLE_CODES / 16; i++)
        table.part[i / 4].val[i % 4] = vld1q_u8((const uint8_t *)grid_normal_levels[bits] + i * 16);
    return table;
}

CODES_INLINE int8x16_t codes_levels(const CodesTable *table, uint8x16_t codes, int bits) {
    uint8x16_t levels;

    if (bits <= 4)
        levels = vqtbl1q_u8(table->part[0].val[0], codes);
    else if (bits == 5)
        levels = vqtbl2q_u8((uint8x16x2_t){ { table->part[0].val[0], table->part[0].val[1] } }, codes);
    else
        levels = vqtbl4q_u8(table->part[0], codes);
    if (bits == 7)
        levels = vqtbx4q_u8(levels, table->part[1], codes - (uint8_t)64);
    return vreinterpretq_s8_u8(levels);
}

#endif
