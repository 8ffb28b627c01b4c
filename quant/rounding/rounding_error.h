// SPDX-License-Identifier: Apache-2.0
/* Error of rounding a channel at a given scale: the inner loop of the scale search. One source for every instruction
 * set (rounding_error_impl.h), the same bits from each. */
#ifndef COORDGEN_QUANT_ROUNDING_ERROR_H
#define COORDGEN_QUANT_ROUNDING_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* Sums over a channel, in units of the distance of two levels (where a grid's levels have different ones, of scale):
 * t = |w| / distance, r = that of the nearest level. */
typedef struct RoundingSums {
    double error;  /* (t - r)^2 */
    double tr;     /* t r; 0 unless asked for */
    double rr;     /* r^2; 0 unless asked for */
    double beyond; /* (t - r)^2 past the largest level; 0 unless the levels are in a table (grid_nearest()) */
} RoundingSums;

typedef struct RoundingChannel {
    const float *w; /* f32[n], finite */
    size_t n;
    Grid grid;
    int bits; /* 1..8 */
} RoundingChannel;

/* inverse: 1 / scale. products: fill tr and rr too. */
typedef void RoundingError(const RoundingChannel *channel, float inverse, bool products, RoundingSums *sums);

typedef struct RoundingErrorKernel {
    const char *name;
    uint32_t need; /* CPU_* bits */
    RoundingError *fn;
} RoundingErrorKernel;

/* Best build for these CPU_* bits. */
RoundingError *rounding_error_select(uint32_t cpu);
size_t rounding_error_n(void);
const RoundingErrorKernel *rounding_error_at(size_t index);

#endif
