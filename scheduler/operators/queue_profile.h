// SPDX-License-Identifier: Apache-2.0
/* Which side runs each product of a step of several groups, on a device whose products have a queue. The times of both
 * sides are measured as steps go, and op_placement chooses by them when a step begins. Knows no model and no device. */
#ifndef COORDGEN_SCHEDULER_QUEUE_PROFILE_H
#define COORDGEN_SCHEDULER_QUEUE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/operators/op_placement.h"

/* Zero: all is still to be measured, and products are placed by profile. */
typedef struct QueueProfile {
    OpPlacementKind kind;
    OpTimes times; /* of groups of whole graphs */
    OpPlacement placement;
    uint64_t joint; /* nodes that the device can run on both sides together, a bit each */
    uint64_t again; /* nodes, a bit each, that the other side is to measure once more */
    uint64_t n_steps;
} QueueProfile;

/* Sets on_npu of the setup, of which all else is set. shares, attention_shares: [n_groups], as OpPlacementCase has
 * them. n_slots: of the NPU's queue. is_first: of the step's runs of layers. */
void queue_profile_place(QueueProfile *profile, const double *shares, const double *attention_shares, size_t n_slots,
                         bool is_first, OpQueuesSetup *setup);
/* Tells whether the processors run a product that is the NPU's, because their time for it is to be measured. The group
 * has as many rows as a graph; `times` are those of the step so far. */
bool queue_profile_tries(QueueProfile *profile, const OpTimes *times, size_t node);
/* Tells likewise whether attention that the processors run alone (is_joint: together with the NPU) is to be run the
 * other way, to be measured. */
bool queue_profile_tries_attention(QueueProfile *profile, const OpTimes *times, size_t node, bool is_joint);
/* Writes one line: the times, where products are, and why. */
void queue_profile_explain(const QueueProfile *profile, const OpGraph *graph, char *text, size_t room_bytes);

#endif
