// SPDX-License-Identifier: Apache-2.0
/* Rounding one linear to integers, fitted to the calibration rows. */
#ifndef COORDGEN_IMPORTER_CALIBRATED_ROUND_H
#define COORDGEN_IMPORTER_CALIBRATED_ROUND_H

#include "importer/methods/calibrated.h"
#include "quant/rounding/hessian.h"

/* A call that rounds the weights f32 w[n][k] of a linear to q and scales at the widths of `bits`. */
typedef struct CalibratedRounding {
    const ImportLinear *linear;
    const HessianFactor *factor; /* NULL: rounded plainly */
    const float *w;
    const int8_t *bits; /* [n] */
    int8_t *q;          /* out: [n][k] */
    float *scales;      /* out: [n] */
    double *errors;     /* out, [n] or NULL; with a factor: error over the calibration rows, before gain correction */
} CalibratedRounding;

int calibrated_round(Calibrated *calibrated, const CalibratedRounding *rounding, ErrText *err);
/* Factors the second moments of the inputs x f32[rows][k], which are rotated by blocks first (0: not). */
int calibrated_factor(Calibrated *calibrated, HessianFactor *factor, const float *x, size_t rows, size_t k,
                      uint32_t rotation_block, ErrText *err);

#endif
