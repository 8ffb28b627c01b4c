// SPDX-License-Identifier: Apache-2.0
/* Gain correction changes scales such that the outputs of a rounded channel are as large as the channel's, on average
 * over the calibration rows. */
#ifndef COORDGEN_QUANT_GAIN_H
#define COORDGEN_QUANT_GAIN_H

#include "quant/rounding/compensate.h"

/* The gain of a scale stays between the inverse of this and this. */
#define GAIN_MAX 2.0f

/* Corrects call->scales for call->q. 0 or -ENOMEM. */
int gain_correct(const CompensateCall *call, WorkerPool *pool);

#endif
