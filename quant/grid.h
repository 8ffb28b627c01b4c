/* Levels of a B-bit weight: the integers that a channel of width B may hold. One float scale a channel maps them to
 * weights.
 *
 * B of 1..7: the odd numbers -(2^B - 1), ..., -1, 1, ..., 2^B - 1, as q = 2u - (2^B - 1) with the code u in 0..2^B - 1:
 * symmetric, uniform, no code wasted, and 1 bit is the sign. B = 8: -127..127, as q = u - 128 with u in 1..255. */
#ifndef COORDGEN_QUANT_GRID_H
#define COORDGEN_QUANT_GRID_H

#include <math.h>
#include <stdint.h>

#define GRID_BITS_MIN 1
#define GRID_BITS_MAX 8

/* Largest level: 2^B - 1, or 127 at 8 bits. */
static inline int grid_max(int bits) {
    return bits == GRID_BITS_MAX ? 127 : (1 << bits) - 1;
}

/* q = factor * u - offset. */
static inline int grid_factor(int bits) {
    return bits == GRID_BITS_MAX ? 1 : 2;
}

static inline int grid_offset(int bits) {
    return bits == GRID_BITS_MAX ? 128 : (1 << bits) - 1;
}

static inline int grid_code(int q, int bits) {
    return (q + grid_offset(bits)) / grid_factor(bits);
}

static inline int grid_level(int code, int bits) {
    return grid_factor(bits) * code - grid_offset(bits);
}

/* The level nearest to v. */
static inline float grid_round(float v, int bits) {
    float top = (float)grid_max(bits), q = bits == GRID_BITS_MAX ? rintf(v) : 2 * floorf(v * 0.5f) + 1;

    return q > top ? top : q < -top ? -top : q;
}

#endif
