// SPDX-License-Identifier: Apache-2.0
/* A coding is the meaning of a block's codes: grid and width. Kernels are compiled once for each coding, with both as
 * constants. */
#ifndef COORDGEN_BACKENDS_CPU_PACKED_CODING_H
#define COORDGEN_BACKENDS_CPU_PACKED_CODING_H

#include "quant/format/grid.h"

/* CODING(grid, bits) for each coding. Both grids have the same levels at 1 and 8 bits; UNIFORM stands for both. */
#define PACKED_CODINGS(CODING)                                                                                         \
    CODING(UNIFORM, 1)                                                                                                 \
    CODING(UNIFORM, 2)                                                                                                 \
    CODING(UNIFORM, 3)                                                                                                 \
    CODING(UNIFORM, 4)                                                                                                 \
    CODING(UNIFORM, 5)                                                                                                 \
    CODING(UNIFORM, 6)                                                                                                 \
    CODING(UNIFORM, 7)                                                                                                 \
    CODING(UNIFORM, 8)                                                                                                 \
    CODING(NORMAL, 2)                                                                                                  \
    CODING(NORMAL, 3)                                                                                                  \
    CODING(NORMAL, 4)                                                                                                  \
    CODING(NORMAL, 5)                                                                                                  \
    CODING(NORMAL, 6)                                                                                                  \
    CODING(NORMAL, 7)

/* Index of a coding in an array of PACKED_CODINGS_N (some indices are unused); a constant for constants. */
#define PACKED_CODING(grid, bits) ((grid) * (GRID_BITS_MAX + 1) + (bits))
#define PACKED_CODINGS_N PACKED_CODING(_GRID_N, 0)

/* Returns the coding of a block: bits 1..8. */
static inline int packed_coding(Grid grid, int bits) {
    return PACKED_CODING(grid_has_table(grid, bits) ? GRID_NORMAL : GRID_UNIFORM, bits);
}

#endif
