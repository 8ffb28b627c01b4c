// SPDX-License-Identifier: Apache-2.0
/* Weights to round under the moments of correlated inputs, for the tests of what does it. */
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

/* In 0..1, and of a normal distribution: the same numbers behind each case_init() of the same size. */
double uniform(void);
double gaussian(void);
/* f32[rows][k] with a few strong common directions, as activations have; the caller frees it. */
float *correlated_rows(size_t rows, size_t k);

/* Weights of a normal distribution, channels of 1 to 8 bits in turns, with scales for 3 standard deviations on the
 * grid. */
void case_init(Case *c, Grid grid, size_t n, size_t k, size_t rows, unsigned int n_threads);
void case_deinit(Case *c);
/* One channel of every width becomes zeros, without a scale. */
void case_zero_channels(Case *c);

CompensateCall case_call(Case *c);
/* compensate_round() into q. */
void case_round(Case *c);
/* To the nearest level, into q. */
void case_round_plainly(Case *c);
/* The level that is nearest to v, by definition. */
double case_level(Grid grid, double v, int bits);
/* Under c->h, of such integers for the channel: those of all channels are q. */
double case_error(const Case *c, size_t channel, const int8_t *q);
/* Every integer is a level of its channel's width. */
void case_assert_on_grid(const Case *c);

#endif
