// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/scheduler/operators/op_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/fixtures/model_maker.h"

#define SIM_BUFFERS 5

void sim_begin(Sim *sim) {
    sim->n = sim->setup->n_groups * sim->setup->n_layers * sim->setup->graph->n;
    memset(sim->states, 0, sizeof(sim->states));
}

size_t sim_index_of(const Sim *sim, const OpRef *ref) {
    return (ref->group * sim->setup->n_layers + ref->layer) * sim->setup->graph->n + ref->node;
}

OpRef sim_ref_of(const Sim *sim, size_t index) {
    const size_t nodes = sim->setup->graph->n, layers = sim->setup->n_layers;

    return (
        OpRef){ .group = index / (nodes * layers), .layer = (uint32_t)(index / nodes % layers), .node = index % nodes };
}

static const OpNode *node_of(const Sim *sim, size_t index) {
    return &sim->setup->graph->nodes[index % sim->setup->graph->n];
}

static bool is_on_npu(const Sim *sim, size_t index) {
    const OpRef ref = sim_ref_of(sim, index);

    return sim->setup->on_npu[ref.group] >> ref.node & 1;
}

bool sim_is_joint(const Sim *sim, size_t index) {
    return is_on_npu(sim, index) && node_of(sim, index)->class == OP_CLASS_ATTENTION;
}

static OpQueue side_of(const Sim *sim, size_t index) {
    return is_on_npu(sim, index) && node_of(sim, index)->class == OP_CLASS_PRODUCT ? OP_QUEUE_NPU : OP_QUEUE_CPU;
}

/* Whether `a` must run before `b`, by what they read and write and not by the graph's own masks. */
static bool is_before(const Sim *sim, size_t a, size_t b) {
    const OpRef first = sim_ref_of(sim, a), second = sim_ref_of(sim, b);
    const OpNode *x = node_of(sim, a), *y = node_of(sim, b);

    if (first.group == second.group)
        return a < b && (x->outputs & (y->inputs | y->outputs) || x->inputs & y->outputs);
    return first.group + 1 == second.group && sim->setup->continues >> second.group & 1 && y->follows &&
           first.layer == second.layer && first.node == second.node;
}

/* Whether a node may run if node `ended` had ended; SIM_NOTHING: as it is. */
static bool may_run(const Sim *sim, size_t index, long ended) {
    for (size_t i = 0; i < sim->n; i++) {
        if (is_before(sim, i, index) && (long)i != ended && sim->states[i] != SIM_DONE)
            return false;
    }
    return true;
}

bool sim_is_ready(const Sim *sim, size_t index) {
    return sim->states[index] == SIM_WAITS && may_run(sim, index, SIM_NOTHING);
}

/* Returns the worth of a node by Eq. 5. */
static double worth_of(const Sim *sim, size_t index) {
    double sum = 0;

    for (size_t i = 0; i < sim->n; i++)
        if (sim->states[i] == SIM_WAITS && i != index && side_of(sim, i) == OP_QUEUE_NPU &&
            !may_run(sim, i, SIM_NOTHING) && may_run(sim, i, (long)index))
            sum += sim->times.ns[OP_QUEUE_NPU][sim_ref_of(sim, i).node];
    return side_of(sim, index) == OP_QUEUE_CPU ? sum : -sum;
}

/* Returns the node at a place in the order of looking: in static order by layer, node and group. */
static size_t looked_at(const Sim *sim, size_t nth) {
    const size_t nodes = sim->setup->graph->n, layers = sim->setup->n_layers, groups = sim->setup->n_groups;

    if (sim->setup->order != OP_ORDER_STATIC)
        return nth;
    for (size_t layer = 0; layer < layers; layer++)
        for (size_t node = 0; node < nodes; node++)
            for (size_t group = 0; group < groups; group++)
                if (!nth--)
                    return (group * layers + layer) * nodes + node;
    fail_msg("there are not so many nodes");
    return 0;
}

/* Returns what a queue takes next; SIM_NOTHING: nothing. */
long sim_choice(const Sim *sim, OpQueue side) {
    const OpOrder order = sim->setup->order;
    double best_worth = 0;
    long best = SIM_NOTHING;

    for (size_t nth = 0; nth < sim->n; nth++) {
        const size_t i = looked_at(sim, nth);

        if (side_of(sim, i) != side || sim->states[i] != SIM_WAITS)
            continue;
        if (!sim_is_ready(sim, i)) {
            if (order == OP_ORDER_IN_ORDER || order == OP_ORDER_STATIC)
                return SIM_NOTHING;
            continue;
        }
        if (order != OP_ORDER_OUT_OF_ORDER)
            return (long)i;
        if (best == SIM_NOTHING || worth_of(sim, i) > best_worth) {
            best = (long)i;
            best_worth = worth_of(sim, i);
        }
    }
    return best;
}

/* Returns a product for a processor without work, or SIM_NOTHING. */
long sim_stolen(const Sim *sim, size_t n_running) {
    size_t n = n_running;
    long first = SIM_NOTHING;

    for (size_t i = sim->n; i-- > 0;)
        if (side_of(sim, i) == OP_QUEUE_NPU && sim_is_ready(sim, i)) {
            n++;
            first = (long)i;
        }
    if (first == SIM_NOTHING || sim->setup->order != OP_ORDER_POSITION || sim->setup->steal_beyond == OP_STEAL_NEVER)
        return SIM_NOTHING;
    if (sim->setup->steal_beyond == OP_STEAL_MEASURED) {
        const size_t node = sim_ref_of(sim, (size_t)first).node;

        return (double)n * sim->times.ns[OP_QUEUE_NPU][node] > sim->times.ns[OP_QUEUE_CPU][node] ? first : SIM_NOTHING;
    }
    return n > sim->setup->steal_beyond ? first : SIM_NOTHING;
}

/* --- random graphs ------------------------------------------------------------------------------------------------ */

size_t sim_below(uint64_t *random, size_t n) {
    return (size_t)(test_random(random) >> 33) % n;
}

void sim_fill_graph(OpGraph *graph, uint64_t *random) {
    const size_t n = 1 + sim_below(random, SIM_NODES_MAX);

    memset(graph, 0, sizeof(*graph));
    for (size_t i = 0; i < n; i++)
        op_graph_add(graph, (OpClass)sim_below(random, 3), UINT64_C(1) << sim_below(random, SIM_BUFFERS),
                     sim_below(random, 8) ? UINT64_C(1) << sim_below(random, SIM_BUFFERS) : 0, !sim_below(random, 4));
    op_graph_close(graph);
}

void sim_fill_setup(OpQueuesSetup *setup, const OpGraph *graph, OpOrder order, uint64_t *random) {
    OpQueueLayer *layers = setup->layers;

    *setup = (OpQueuesSetup){
        .graph = graph,
        .layers = layers,
        .n_groups = 1 + sim_below(random, SIM_GROUPS_MAX),
        .n_layers = 1 + (uint32_t)sim_below(random, SIM_LAYERS_MAX),
        .continues = test_random(random) & ~UINT64_C(1),
        .order = order,
        .steal_beyond = sim_below(random, 4),
    };
    for (size_t group = 0; group < setup->n_groups; group++) /* some, or all */
        setup->on_npu[group] = op_queues_products(graph) & (sim_below(random, 2) ? test_random(random) : ~UINT64_C(0));
}

void sim_fill_times(OpTimes *times, const OpGraph *graph, uint64_t *random) {
    for (size_t node = 0; node < graph->n; node++)
        for (size_t by = 0; by < _OP_QUEUE_N; by++)
            times->ns[by][node] = (double)(1 + sim_below(random, 9));
}
