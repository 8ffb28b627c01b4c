// SPDX-License-Identifier: Apache-2.0
/* From the losses of all channels to their widths. */
#ifndef COORDGEN_IMPORTER_SENSITIVITY_ALLOCATE_H
#define COORDGEN_IMPORTER_SENSITIVITY_ALLOCATE_H

#include "importer/sensitivity/sensitivity.h"

/* Fills the bits of every linear of the layers: at most average_bits a weight. */
int sensitivity_allocate(const Sensitivity *sensitivity, const Calibrated *calibrated, double average_bits,
                         ErrText *err);

#endif
