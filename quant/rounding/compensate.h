// SPDX-License-Identifier: Apache-2.0
/* Error-compensated rounding (OPTQ / GPTQ, arXiv:2210.17323): every weight is rounded to its channel's grid so that it
 * makes up for what rounding did to the weights before it, as far as the calibration inputs could tell. */
#ifndef COORDGEN_QUANT_COMPENSATE_H
#define COORDGEN_QUANT_COMPENSATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/system/worker_pool.h"
#include "quant/format/grid.h"
#include "quant/rounding/hessian.h"

typedef struct CompensateCall {
    const HessianFactor *factor;
    size_t n;           /* channels; factor->k inputs */
    const float *w;     /* f32[n][k] */
    Grid grid;          /* of the levels */
    const int8_t *bits; /* [n] */
    float *scales;      /* [n], finite >= 0; changed by gain correction alone */
    int8_t *q;          /* out: int8[n][k] */
    double *errors;     /* out, may be NULL: f64[n], (w - s q) H (w - s q)^T */
} CompensateCall;

/* 0 or -ENOMEM. */
int compensate_round(const CompensateCall *call, WorkerPool *pool);

#endif
