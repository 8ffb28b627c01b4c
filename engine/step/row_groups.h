// SPDX-License-Identifier: Apache-2.0
/* The pipeline of a prefill: a step's rows in groups that go through the layers each at its own pace. One thread
 * computes one operator of a group, and attention waits until the group before has stored its keys and values. Threads
 * therefore do not meet behind every operator. Private to the engine. */
#ifndef COORDGEN_ENGINE_ROW_GROUPS_H
#define COORDGEN_ENGINE_ROW_GROUPS_H

#include "engine/step/step_state.h"

/* Makes devices for steps of shape->rows, after the engine's own was reserved. There are none if the device, the pool,
 * the options, the memory or the number of rows allow no groups. 0, -ENOMEM. */
int row_groups_reserve(Engine *engine, const BackendShape *shape, ErrText *err);
void row_groups_release(Engine *engine);
/* Lets all devices, also the engine's own and those that are reserved later, attend to so many positions. As the
 * device's reserve_positions(). */
int row_groups_reserve_positions(Engine *engine, size_t n_positions, ErrText *err);
/* Cuts the rows of a step, whose batch is there, if that gives every thread a group: from its layer to `end`. */
void row_groups_cut(EngineStep *step, uint32_t end);
/* Whether all groups are at the end of their last layer. */
bool row_groups_have_ended(const RowGroups *groups);
/* Runs the groups from where they are to the end of their last layer. Returns as engine_step_run(). */
int row_groups_run(EngineStep *step, const EngineYield *yield, ErrText *err);

#endif
