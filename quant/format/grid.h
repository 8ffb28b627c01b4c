// SPDX-License-Identifier: Apache-2.0
/* Levels of a B-bit weight: the integers that a channel of width B may hold. One float scale a channel maps them to
 * weights. Two kinds:
 *
 * GRID_UNIFORM: B of 1..7: the odd numbers -(2^B - 1), ..., -1, 1, ..., 2^B - 1, as q = 2u - (2^B - 1) with the code u
 * in 0..2^B - 1: symmetric, uniform, no code wasted, and 1 bit is the sign. B = 8: -127..127, as q = u - 128 with u in
 * 1..255. A channel's levels are levels of every greater width, too.
 *
 * GRID_NORMAL: B of 2..7: close where a normal distribution has most of its weights and wide apart where it has few
 * (Lloyd 1982, Max 1960), as a rotated channel has them: the 2^B integers of least squared error, which is 0.99, 0.92,
 * 0.82, 0.72, 0.63 and 0.59 of the uniform grid's at 2 to 7 bits. Codes rise with the levels. They are int8 like the
 * others: a matrix unit sees no difference. 1 and 8 bits: as GRID_UNIFORM. Widths have few levels in common. */
#ifndef COORDGEN_QUANT_GRID_H
#define COORDGEN_QUANT_GRID_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

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

/* "uniform", "normal". */
const char *grid_name(Grid grid);
/* -ENOENT when unknown. */
int grid_named(Grid *gridp, const char *name);

/* GRID_NORMAL's levels by width and code, rising; what lies past 2^B codes is 0. Aligned to 64. */
extern const int8_t grid_normal_levels[GRID_TABLE_BITS_MAX + 1][GRID_TABLE_CODES];

/* Are the levels of this width in the table (or do the formulas of the uniform grid give them)? */
static inline bool grid_has_table(Grid grid, int bits) {
    return grid == GRID_NORMAL && bits >= GRID_TABLE_BITS_MIN && bits <= GRID_TABLE_BITS_MAX;
}

/* q = factor * u - offset where there is no table. */
static inline int grid_factor(int bits) {
    return bits == GRID_BITS_MAX ? 1 : 2;
}

static inline int grid_offset(int bits) {
    return bits == GRID_BITS_MAX ? 128 : (1 << bits) - 1;
}

static inline int grid_level(Grid grid, int code, int bits) {
    return grid_has_table(grid, bits) ? grid_normal_levels[bits][code] : grid_factor(bits) * code - grid_offset(bits);
}

/* Largest level. */
static inline int grid_max(Grid grid, int bits) {
    return bits == GRID_BITS_MAX ? 127 : grid_level(grid, (1 << bits) - 1, bits);
}

/* The code of a level, which must be one. */
static inline int grid_code(Grid grid, int q, int bits) {
    int code = 0;

    if (!grid_has_table(grid, bits))
        return (q + grid_offset(bits)) / grid_factor(bits);
    for (int step = 1 << (bits - 1); step; step /= 2)
        if (grid_normal_levels[bits][code + step] <= q)
            code += step;
    return code;
}

/* Where there is a table: the positive level nearest to a v >= 0, by floor(2 v) up to GRID_NEAREST_CELLS - 1. Borders
 * between levels are multiples of 1/2, so every v of a cell has the same; a border belongs to the larger level. Else
 * NULL. Static; made at the first call. Thread: any. */
const float *grid_nearest(Grid grid, int bits);

/* The level nearest to v. nearest: grid_nearest() of these bits. */
static inline float grid_round(const float *nearest, float v, int bits) {
    float top, q;

    if (nearest) {
        float cell = fminf(2 * fabsf(v), GRID_NEAREST_CELLS - 1);

        return copysignf(nearest[(int)cell], v);
    }
    top = bits == GRID_BITS_MAX ? 127 : (float)((1 << bits) - 1);
    q = bits == GRID_BITS_MAX ? rintf(v) : 2 * floorf(v * 0.5f) + 1;
    return q > top ? top : q < -top ? -top : q;
}

#endif
