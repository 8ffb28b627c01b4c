// SPDX-License-Identifier: Apache-2.0
/* A step's rows on a device whose products have a queue of their own: groups of as many rows as a graph has, whose
 * products and other operators run at the same time (scheduler/op_queues has the order). The thread that computes gives
 * the queue its products, and meanwhile runs what is not for it. Private to the engine. */
#ifndef COORDGEN_ENGINE_QUEUE_GROUPS_H
#define COORDGEN_ENGINE_QUEUE_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/step/engine_step.h"

/* Of a step, where nobody says how many rows it has: while one attends the others' products run. */
#define QUEUE_GROUPS_WANTED 4

/* Whether steps of so many rows can have several groups. */
bool queue_groups_are_of(const BackendOps *ops, size_t rows);
/* Whether this one's rows are more than one. */
bool queue_groups_has_room(const EngineStep *step);
/* The groups are cut, and go through n_layers layers. */
void queue_groups_begin(EngineStep *step, uint32_t n_layers);
/* As row_groups_run(). Whatever it returns, nothing is under way any more. */
int queue_groups_run(EngineStep *step, const EngineYield *yield, ErrText *err);

#endif
