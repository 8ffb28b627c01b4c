// SPDX-License-Identifier: Apache-2.0
/* A step's rows on a device whose products have a queue of their own: groups of as many rows as a graph has, whose
 * products and other operators run at the same time. The thread that computes carries out what
 * scheduler/operators/op_loop decides: it gives the queue products, and runs other operators meanwhile. Private to the
 * engine. */
#ifndef COORDGEN_ENGINE_QUEUE_GROUPS_H
#define COORDGEN_ENGINE_QUEUE_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/step/engine_step.h"

/* Number of groups in a step of default size: while one attends, the products of the others run. */
#define QUEUE_GROUPS_WANTED 4

/* Whether steps of so many rows can have several groups. */
bool queue_groups_are_of(const BackendOps *ops, size_t rows);
/* Whether this step has rows for more than one group, and memory for its queues. */
bool queue_groups_has_room(const EngineStep *step);
/* Begins with the groups that were cut, which go through n_layers layers. */
void queue_groups_begin(EngineStep *step, uint32_t n_layers);
/* Runs the groups as row_groups_run() does. No product is under way when it returns, whatever it returns. */
int queue_groups_run(EngineStep *step, const EngineYield *yield, ErrText *err);

#endif
