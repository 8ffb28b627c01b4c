// SPDX-License-Identifier: Apache-2.0
/* Coordinate descent on integers that are there (QuantEase, arXiv:2309.01885): one after another every weight takes the
 * level that is best for the output as all others stand. Error-compensated rounding decides each weight once, before it
 * knows how the later ones come out; this looks at it again. */
#ifndef COORDGEN_QUANT_DESCENT_H
#define COORDGEN_QUANT_DESCENT_H

#include "base/system/worker_pool.h"
#include "quant/rounding/compensate.h"

/* Each pass costs twice the multiplications of compensate_round(). At 5 bits two took 4 % off the divergence of
 * smollm2-135m from its float model, four 5 %. */
#define DESCENT_PASSES 3

/* call: as for compensate_round(), but q is where it begins, and better after it; the scales stay. Errors never rise
 * but by rounding; errors are replaced. Ends early where nothing changes. 0 or -ENOMEM. */
int descent_refine(const CompensateCall *call, unsigned int n_passes, WorkerPool *pool);

#endif
