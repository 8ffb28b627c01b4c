// SPDX-License-Identifier: Apache-2.0
/* Measures the error of rounding a channel at a given scale: the inner loop of the scale search. One source serves
 * every instruction set (rounding_error_impl.h), with the same bits. */
#ifndef COORDGEN_QUANT_ROUNDING_ERROR_H
#define COORDGEN_QUANT_ROUNDING_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* Sums over a channel of t = |w| / distance and r, the nearest level in the same unit. The unit is the distance of two
 * levels, or the scale for grids with several distances. */
typedef struct RoundingSums {
    double error;  /* (t - r)^2 */
    double tr;     /* t r; 0 without products */
    double rr;     /* r^2; 0 without products */
    double beyond; /* (t - r)^2 past the largest level; 0 for levels without a table (grid_nearest()) */
} RoundingSums;

typedef struct RoundingChannel {
    const float *w; /* f32[n], finite */
    size_t n;
    Grid grid;
    int bits; /* 1..8 */
} RoundingChannel;

/* Computes the sums. inverse: 1 / scale. products: compute tr and rr too. */
typedef void RoundingError(const RoundingChannel *channel, float inverse, bool products, RoundingSums *sums);

typedef struct RoundingErrorKernel {
    const char *name;
    uint32_t need; /* CPU_* bits */
    RoundingError *fn;
} RoundingErrorKernel;

/* Returns the best build for these CPU_* bits. */
RoundingError *rounding_error_select(uint32_t cpu);
size_t rounding_error_n(void);
const RoundingErrorKernel *rounding_error_at(size_t index);

#endif
