// SPDX-License-Identifier: Apache-2.0
/* How many bits each part of a model deserves, measured on the model itself. */
#ifndef COORDGEN_IMPORTER_SENSITIVITY_H
#define COORDGEN_IMPORTER_SENSITIVITY_H

#include "base/cleanup.h"
#include "importer/methods/calibrated.h"
#include "quant/format/recipe_spec.h"

enum {
    SENSITIVITY_BITS = 4,
};

/* The loss of answers by fewer bits in each part of the model, measured on calibration rows. */
typedef struct Sensitivity {
    uint32_t n_layers;
    double *(*losses)[_ROLE_N]; /* [n_layers]: f64[n] of a linear's channels, in nats an answer at SENSITIVITY_BITS */
} Sensitivity;

int sensitivity_measure(Sensitivity **sensitivityp, Calibrated *calibrated, ErrText *err);
Sensitivity *sensitivity_free(Sensitivity *sensitivity);
DEFINE_CLEANUP(Sensitivity, sensitivity_free)
void sensitivity_spec_without(char spec[RECIPE_SPEC_MAX], const ImportModel *model);

#endif
