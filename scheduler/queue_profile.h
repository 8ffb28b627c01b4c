// SPDX-License-Identifier: Apache-2.0
/* Who runs the products of steps of several groups on a device whose products have a queue: its times are measured as
 * steps go, on either side, and scheduler/op_placement chooses by them at each step's begin. Private to the engine. */
#ifndef COORDGEN_SCHEDULER_QUEUE_PROFILE_H
#define COORDGEN_SCHEDULER_QUEUE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/step/row_groups.h"
#include "scheduler/op_placement.h"

/* Zero: all is still to be measured, and products are placed by profile. */
typedef struct QueueProfile {
    OpPlacementKind kind;
    OpTimes times; /* of groups of whole graphs */
    OpPlacement placement;
    uint64_t again; /* nodes, a bit each, that the processors are to measure once more */
    uint64_t n_steps;
} QueueProfile;

/* Where the nodes of the step's groups are: on_npu of the setup, of which all else is set. */
void queue_profile_place(QueueProfile *profile, const LayerGraph *layer, const RowGroups *groups, size_t rows_of_graph,
                         size_t n_slots, OpQueuesSetup *setup);
/* A product that is the NPU's, of a group of as many rows as a graph has: whether the processors run this one, for
 * their time is not known. `times` as they are in the step. */
bool queue_profile_tries(QueueProfile *profile, const OpTimes *times, size_t node);
/* The times, where products are, and why, as a line. */
void queue_profile_explain(const QueueProfile *profile, const LayerGraph *layer, char *text, size_t room_bytes);

#endif
