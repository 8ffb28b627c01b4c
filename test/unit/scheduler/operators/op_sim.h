// SPDX-License-Identifier: Apache-2.0
/* A simple simulation of the queues of an NPU and of the processors, for tests, and random graphs for it. The
 * simulation knows each node's predecessors by what they read and write, and looks at all nodes for every choice. */
#ifndef COORDGEN_TEST_UNIT_OP_SIM_H
#define COORDGEN_TEST_UNIT_OP_SIM_H

#include "scheduler/operators/op_queues.h"

enum {
    SIM_GROUPS_MAX = 5,
    SIM_LAYERS_MAX = 4,
    SIM_NODES_MAX = 9,
    SIM_MAX = SIM_GROUPS_MAX * SIM_LAYERS_MAX * SIM_NODES_MAX,
    SIM_NOTHING = -1,
};

typedef enum SimState {
    SIM_WAITS,
    SIM_RUNS,
    SIM_DONE,
} SimState;

/* The states of all nodes, in the order of groups, layers and the graph. */
typedef struct Sim {
    const OpQueuesSetup *setup;
    OpTimes times;
    SimState states[SIM_MAX];
    size_t n;
} Sim;

/* Lets all nodes wait. */
void sim_begin(Sim *sim);
OpRef sim_ref_of(const Sim *sim, size_t index);
/* Whether both sides work at the node together. */
bool sim_is_joint(const Sim *sim, size_t index);
size_t sim_index_of(const Sim *sim, const OpRef *ref);
bool sim_is_ready(const Sim *sim, size_t index);
/* Returns what a queue takes next, or SIM_NOTHING. */
long sim_choice(const Sim *sim, OpQueue side);
/* Returns what a processor without work takes, with n_running products under way beside those that may begin; or
 * SIM_NOTHING. */
long sim_stolen(const Sim *sim, size_t n_running);

size_t sim_below(uint64_t *random, size_t n);
void sim_fill_graph(OpGraph *graph, uint64_t *random);
/* Draws groups, layers, an order and places of products for a graph; few products are enough to steal. */
void sim_fill_setup(OpQueuesSetup *setup, const OpGraph *graph, OpOrder order, uint64_t *random);
/* Draws times of 1 to 9 for each node on each side. */
void sim_fill_times(OpTimes *times, const OpGraph *graph, uint64_t *random);

#endif
