// SPDX-License-Identifier: Apache-2.0
/*
 * Which of the two runs a product: the NPU, or the processors beside it. All products on the NPU is EdgeFlow's static
 * placement (4.3). By profile they are where the whole is done sooner: the queues are run in simulated time, with the
 * times that were measured on either side, and a product moves where that ends earlier. What is no product stays with
 * the processors, for an NPU runs nothing else.
 *
 * Knows no model, no device and no thread.
 */
#ifndef COORDGEN_SCHEDULER_OP_PLACEMENT_H
#define COORDGEN_SCHEDULER_OP_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "scheduler/op_queues.h"

typedef enum OpPlacementKind {
    OP_PLACEMENT_PROFILE, /* where the whole is done sooner */
    OP_PLACEMENT_NPU,     /* all that the NPU can run */
    _OP_PLACEMENT_N,
} OpPlacementKind;

const char *op_placement_name(OpPlacementKind kind); /* "profile" */
/* false: there is none of that name. */
bool op_placement_named(const char *name, OpPlacementKind *kindp);

/* Of the simulation: what is more of layers and groups, of which the last ones count, is left out. */
#define OP_PLACEMENT_LAYERS 3
#define OP_PLACEMENT_GROUPS 6

/* What is to be run, and how. */
typedef struct OpPlacementCase {
    const OpQueuesSetup *queues; /* layers and on_npu are not looked at */
    const OpTimes *times;
    const double *shares; /* [n_groups] rows of a group, of those of a whole one: 0..1 */
    size_t n_slots;       /* of the NPU's queue: 1..BACKEND_PRODUCT_SLOTS_MAX */
} OpPlacementCase;

/* Nodes that the NPU runs of each simulated group, a bit each. A graph has one shape: a group of few rows takes the NPU
 * as long as a whole one, and the processors only so much of it as it has. */
typedef struct OpPlacement {
    uint64_t on_npu[OP_PLACEMENT_GROUPS];
    size_t n_groups;              /* of the last choice; 0: there was none */
    double all_npu_ns, placed_ns; /* predicted, of the simulated layers: all on the NPU, and so */
} OpPlacement;

/* All on the NPU. */
void op_placement_init(OpPlacement *placement, uint64_t products);
/* For the queues' setup. Groups that are not simulated have the places of those that are, in turns. */
void op_placement_fill(const OpPlacement *placement, size_t n_groups, uint64_t *on_npu);
/* Simulated nanoseconds until all has ended, on_npu[n_groups]. */
double op_placement_predict(const OpPlacementCase *of, const uint64_t *on_npu);
/* From where the products are now. They are on the NPU unless other places save 2 per cent of the time, and stay where
 * they are unless others save as much again. All of their times must be known (op_times_know()). */
void op_placement_choose(const OpPlacementCase *of, OpPlacement *placement);

#endif
