// SPDX-License-Identifier: Apache-2.0
/* Coordinate descent improves rounded integers (QuantEase, arXiv:2309.01885): one after another, every weight takes
 * the level that is best for the output with all other weights fixed. Error-compensated rounding decides each weight
 * once, before the later ones are known; descent decides it again. */
#ifndef COORDGEN_QUANT_DESCENT_H
#define COORDGEN_QUANT_DESCENT_H

#include "base/system/worker_pool.h"
#include "quant/rounding/compensate.h"

/* The default number of passes. Each pass costs twice the multiplications of compensate_round(); a fourth one gains
 * next to nothing (docs/lab/quantization.md). */
#define DESCENT_PASSES 3

/* Improves call->q, with the call of compensate_round(); scales stay, errors are replaced. An error rises at most by
 * float rounding. Ends early when nothing changes. 0 or -ENOMEM. */
int descent_refine(const CompensateCall *call, unsigned int n_passes, WorkerPool *pool);

#endif
