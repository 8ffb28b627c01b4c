/* Gain correction: scales with which the outputs of a rounded channel are neither smaller nor larger than the
 * channel's, on the average over the calibration rows. */
#ifndef COORDGEN_QUANT_GAIN_H
#define COORDGEN_QUANT_GAIN_H

#include "quant/compensate.h"

/* What a scale is multiplied by is kept within this and its inverse. */
#define GAIN_MAX 2.0f

/* Corrects the scales of the call's integers; scales f32[n] is call->scales. 0 or -ENOMEM. */
int gain_correct(const CompensateCall *call, float *scales, WorkerPool *pool);

#endif
