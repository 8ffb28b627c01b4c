// SPDX-License-Identifier: Apache-2.0
/* Plans when the blocks of a model change from prompt graphs to decode graphs while a prompt is computed. */
#ifndef COORDGEN_SCHEDULER_GRAPH_PLAN_H
#define COORDGEN_SCHEDULER_GRAPH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/graphs/graph_times.h"

#define GRAPH_BLOCKS_MAX 64

/* When blocks are switched in the chunks of a prompt that are left. A position is one chunk in one block; positions run
 * through all blocks of a chunk, then through the next chunk. A load begins where a block begins, if no other load is
 * under way. */
typedef struct GraphPlan {
    bool goes_back;              /* before `begin`, decode graphs are replaced by prompt graphs */
    uint64_t begin;              /* from this position on, prompt graphs are replaced by decode graphs */
    size_t n_hiding;             /* least number of blocks whose computing takes as long as a load (Eq. 2) */
    GraphTimes times;            /* the times that the plan was made by, for a step in place of a chunk */
    double prefill_ns, stall_ns; /* predicted: until the last position is computed, then until all is switched */
} GraphPlan;

/* Makes the plan with the least sum of both times; of equal plans the one that begins first. is[n_blocks]: the kind of
 * each block; n_positions are left, from block `first` on. must_go_back: where there are positions enough, only plans
 * that leave time to load the prompt graphs first. */
void graph_plan_make(GraphPlan *plan, const GraphTimes *times, const GraphKind *is, size_t n_blocks, size_t first,
                     uint64_t n_positions, bool must_go_back);
/* Fills the predicted times of a plan, by its begin and goes_back. */
void graph_plan_predict(GraphPlan *plan, const GraphTimes *times, const GraphKind *is, size_t n_blocks, size_t first,
                        uint64_t n_positions);

#endif
