// SPDX-License-Identifier: Apache-2.0
/* EdgeFlow's smoothing inside the calibrated method (quant/smoothing.h has the table). */
#ifndef COORDGEN_IMPORTER_CALIBRATED_SMOOTH_H
#define COORDGEN_IMPORTER_CALIBRATED_SMOOTH_H

#include "importer/methods/calibrated.h"

int calibrated_smoothing(Calibrated *calibrated, const ImportLayer *layer, const ArchOp *op, const float *x,
                         size_t rows, size_t k, float *const *w, bool by_bits, float *factors, ErrText *err);
int calibrated_fold(Calibrated *calibrated, const ImportLayer *layer, const ArchOp *op, float *x, size_t rows, size_t k,
                    const float *factors, float *const *vectors, ErrText *err);
int calibrated_allocate_smoothed(Calibrated *calibrated, ErrText *err);

#endif
