// SPDX-License-Identifier: Apache-2.0
/* Weights to be rounded under the moments of correlated inputs, for tests of rounding. */
#ifndef COORDGEN_TEST_ROUNDING_CASE_H
#define COORDGEN_TEST_ROUNDING_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "base/system/worker_pool.h"
#include "quant/rounding/compensate.h"

typedef struct Case {
    Grid grid;
    size_t n, k;
    WorkerPool *pool;
    double *h; /* f64[k][k], damped */
    HessianFactor factor;
    float *w;
    float *scales;
    int8_t *bits, *q;
    double *errors;
} Case;

/* Return random numbers in 0..1, and of a normal distribution; equal after each case_init() of equal size. */
double uniform(void);
double gaussian(void);
/* Makes f32[rows][k] with a few strong common directions, as activations have; the caller frees it. */
float *correlated_rows(size_t rows, size_t k);

/* Makes weights of a normal distribution, channels of 1 to 8 bits in turn, with scales for 3 standard deviations on the
 * grid. */
void case_init(Case *c, Grid grid, size_t n, size_t k, size_t rows, unsigned int n_threads);
void case_deinit(Case *c);
/* Zeroes a channel of every width; these have no scale. */
void case_zero_channels(Case *c);

CompensateCall case_call(Case *c);
/* Rounds by compensate_round() into q. */
void case_round(Case *c);
/* Rounds to the nearest level, into q. */
void case_round_plainly(Case *c);
/* Returns the level nearest to v, by definition. */
double case_level(Grid grid, double v, int bits);
/* Returns the error under c->h of integers q for the channel; q covers all channels. */
double case_error(const Case *c, size_t channel, const int8_t *q);
/* Checks that every integer is a level of its channel's width. */
void case_assert_on_grid(const Case *c);

#endif
