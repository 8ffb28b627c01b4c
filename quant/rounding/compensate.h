// SPDX-License-Identifier: Apache-2.0
/* Error-compensated rounding (OPTQ / GPTQ, arXiv:2210.17323) rounds every weight to its channel's grid such that it
 * compensates the errors of the weights rounded before it, as measured on the calibration inputs. */
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
    float *scales;      /* [n], finite, >= 0; only gain correction changes them */
    int8_t *q;          /* out: int8[n][k] */
    double *errors;     /* out, may be NULL: f64[n], (w - s q) H (w - s q)^T */
} CompensateCall;

/* Rounds all channels of a call. 0 or -ENOMEM. */
int compensate_round(const CompensateCall *call, WorkerPool *pool);

#endif
