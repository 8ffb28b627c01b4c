// SPDX-License-Identifier: Apache-2.0
/* Levels of a B-bit weight: the integers that a channel of width B may hold. One float scale per channel maps levels
 * to weights. There are two grids:  GRID_UNIFORM, B of 1..7: the odd numbers -(2^B - 1), ..., -1, 1, ..., 2^B - 1, as
 * q = 2u - (2^B - 1) with the code u in 0..2^B - 1. The levels are symmetric and uniform, waste no code, and 1 bit is
 * the sign. B = 8: -127..127, as q = u - 128 with u in 1..255. The levels of a width are levels of every greater width
 * too.  GRID_NORMAL, B of 2..7: levels for the normal distribution that a rotated channel has, dense in its middle and
 * sparse at its ends (Lloyd 1982, Max 1960). The 2^B integers have the least squared error, 0.99, 0.92, 0.82, 0.72,
 * 0.63 and 0.59 of the uniform grid's at 2 to 7 bits. Codes rise with the levels, which are int8, so a matrix unit
 * sees no difference. 1 and 8 bits are those of GRID_UNIFORM. Different widths have few levels in common. */
#ifndef COORDGEN_QUANT_GRID_H
#define COORDGEN_QUANT_GRID_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/min_max.h"

#define GRID_BITS_MIN 1
#define GRID_BITS_MAX 8

typedef enum Grid {
    GRID_UNIFORM,
    GRID_NORMAL,
    _GRID_N,
} Grid;

#define GRID_TABLE_BITS_MIN 2
#define GRID_TABLE_BITS_MAX 7
#define GRID_TABLE_CODES (1 << GRID_TABLE_BITS_MAX)
#define GRID_NEAREST_CELLS 256

/* Returns "uniform" or "normal". */
const char *grid_name(Grid grid);
/* Finds a grid by name. 0 or -ENOENT. */
int grid_named(Grid *gridp, const char *name);

/* GRID_NORMAL's levels by width and code, rising; 0 past 2^B codes. Aligned to 64 bytes. */
extern const int8_t grid_normal_levels[GRID_TABLE_BITS_MAX + 1][GRID_TABLE_CODES];

/* Whether the levels of this width are in the table; otherwise the formulas of the uniform grid give them. */
static inline bool grid_has_table(Grid grid, int bits) {
    return grid == GRID_NORMAL && bits >= GRID_TABLE_BITS_MIN && bits <= GRID_TABLE_BITS_MAX;
}

/* Returns the factor in q = factor * u - offset, for a width without a table. */
static inline int grid_factor(int bits) {
    return bits == GRID_BITS_MAX ? 1 : 2;
}

static inline int grid_offset(int bits) {
    return bits == GRID_BITS_MAX ? 128 : (1 << bits) - 1;
}

static inline int grid_level(Grid grid, int code, int bits) {
    return grid_has_table(grid, bits) ? grid_normal_levels[bits][code] : grid_factor(bits) * code - grid_offset(bits);
}

/* Returns the largest level. */
static inline int grid_max(Grid grid, int bits) {
    return bits == GRID_BITS_MAX ? 127 : grid_level(grid, (1 << bits) - 1, bits);
}

/* Returns the code of q, which must be a level. */
static inline int grid_code(Grid grid, int q, int bits) {
    int code = 0;

    if (!grid_has_table(grid, bits))
        return (q + grid_offset(bits)) / grid_factor(bits);
    for (int step = 1 << (bits - 1); step; step /= 2)
        if (grid_normal_levels[bits][code + step] <= q)
            code += step;
    return code;
}

/* Returns a static table of the positive level nearest to a v >= 0, indexed by floor(2 v) up to GRID_NEAREST_CELLS -
 * 1; NULL for a width without a table. Borders between levels are multiples of 1/2, so all v of a cell have the same
 * level; a border belongs to the larger level. The first call makes the table. Thread: any. */
const float *grid_nearest(Grid grid, int bits);

/* Returns the level nearest to v. nearest: grid_nearest() of these bits. */
static inline float grid_round(const float *nearest, float v, int bits) {
    float top, q;

    if (nearest) {
        float cell = fminf(2 * fabsf(v), GRID_NEAREST_CELLS - 1);

        return copysignf(nearest[(int)cell], v);
    }
    top = bits == GRID_BITS_MAX ? 127 : (float)((1 << bits) - 1);
    q = bits == GRID_BITS_MAX ? rintf(v) : 2 * floorf(v * 0.5f) + 1;
    return q > top ? top : MAX(-top, q);
}

#endif
