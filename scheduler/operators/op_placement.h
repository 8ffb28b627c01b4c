// SPDX-License-Identifier: Apache-2.0
/*
 * Chooses which side runs a product: the NPU, or the processors beside it. EdgeFlow's static placement (4.3) has all
 * products on the NPU. The placement by profile runs the queues in simulated time, with the measured times of both
 * sides, and moves a product where the whole ends earlier. Attention can be joint: its products run on the NPU while
 * the processors make its weights, and neither side does anything else meanwhile. All other operators stay with the
 * processors, for an NPU runs products alone.
 *
 * The module knows no model, no device and no thread.
 */
#ifndef COORDGEN_SCHEDULER_OP_PLACEMENT_H
#define COORDGEN_SCHEDULER_OP_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "scheduler/operators/op_queues.h"

typedef enum OpPlacementKind {
    OP_PLACEMENT_PROFILE, /* where the whole ends sooner */
    OP_PLACEMENT_NPU,     /* all products of matrices on the NPU */
    OP_PLACEMENT_ALL,     /* and attention's products, too */
    _OP_PLACEMENT_N,
} OpPlacementKind;

extern const Choice op_placement_choices[];          /* OpPlacementKind */
const char *op_placement_name(OpPlacementKind kind); /* "profile" */

/* Size of the simulation: further layers are left out, and so are all groups but the last ones. */
#define OP_PLACEMENT_LAYERS 3
#define OP_PLACEMENT_GROUPS 6

/* The work, and how it is run. */
typedef struct OpPlacementCase {
    const OpQueuesSetup *queues; /* layers and on_npu are not looked at */
    const OpTimes *times;
    const double *shares; /* [n_groups] rows of each group, as a share of a whole group: 0..1 */
    size_t n_slots;       /* of the NPU's queue: 1..BACKEND_PRODUCT_SLOTS_MAX */
    /* [n_groups] work of each group's attention, 1: the rows of a graph read OP_TIMES_POSITIONS; NULL: `shares`. */
    const double *attention_shares;
    uint64_t joint; /* nodes of op_queues_attention() that may be joint, a bit each; their times are known */
} OpPlacementCase;

/* Nodes of each simulated group that the NPU runs or helps with, a bit each. A graph has one shape: the NPU takes as
 * long for a group of few rows as for a whole one, the processors only for the rows that are there. */
typedef struct OpPlacement {
    uint64_t on_npu[OP_PLACEMENT_GROUPS];
    size_t n_groups;              /* of the last choice; 0: there was none */
    double all_npu_ns, placed_ns; /* predicted for the simulated layers: all on the NPU, and as placed */
} OpPlacement;

/* Puts nodes on the NPU, a bit each. */
void op_placement_init(OpPlacement *placement, uint64_t nodes);
/* Fills on_npu[n_groups] of the queues' setup. Groups that are not simulated have the places of simulated ones, in
 * turns. */
void op_placement_fill(const OpPlacement *placement, size_t n_groups, uint64_t *on_npu);
/* Returns the simulated nanoseconds until all has ended, with on_npu[n_groups]. */
double op_placement_predict(const OpPlacementCase *of, const uint64_t *on_npu);
/* Chooses places, starting from where the products are now. Products are on the NPU unless other places save 2 per cent
 * of the time, and stay where they are unless others save as much again. All their times must be known
 * (op_times_know()). */
void op_placement_choose(const OpPlacementCase *of, OpPlacement *placement);

#endif
