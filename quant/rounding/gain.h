// SPDX-License-Identifier: Apache-2.0
/* Gain correction: scales with which the outputs of a rounded channel are neither smaller nor larger than the
 * channel's, on the average over the calibration rows. */
#ifndef COORDGEN_QUANT_GAIN_H
#define COORDGEN_QUANT_GAIN_H

#include "quant/rounding/compensate.h"

/* What a scale is multiplied by is kept within this and its inverse. */
#define GAIN_MAX 2.0f

/* Corrects call->scales for call->q. 0 or -ENOMEM. */
int gain_correct(const CompensateCall *call, WorkerPool *pool);

#endif
