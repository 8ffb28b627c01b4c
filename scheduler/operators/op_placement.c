// SPDX-License-Identifier: Apache-2.0
/*
 * The simulation runs the engine's own loop (op_loop). What it predicts therefore contains the bubbles of the order,
 * which sums of times do not.
 *
 * Products move one by one, each in one group and in all layers, and so does attention between the processors and both
 * sides. The product that saves most moves first, until none
 * saves anything to speak of. There are a few dozen, and a simulation takes some 20 microseconds. Most moves are not
 * simulated at all: no side can end sooner than its own work takes.
 */
#include "scheduler/operators/op_placement.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/min_max.h"
#include "scheduler/operators/op_loop.h"

#define LEAST_MOVE 0.002 /* share of the time that a move must save */
#define LEAST_GAIN 0.02  /* share that all moves together must save, for times vary */

const Choice op_placement_choices[] = {
    { "profile", OP_PLACEMENT_PROFILE },
    { "npu", OP_PLACEMENT_NPU },
    { "all", OP_PLACEMENT_ALL },
    { NULL, 0 },
};

const char *op_placement_name(OpPlacementKind kind) {
    return choice_name(op_placement_choices, kind);
}

static size_t simulated_groups(size_t n_groups) {
    return MIN(n_groups, OP_PLACEMENT_GROUPS);
}

void op_placement_init(OpPlacement *placement, uint64_t nodes) {
    *placement = (OpPlacement){ .n_groups = 0 };
    for (size_t i = 0; i < OP_PLACEMENT_GROUPS; i++)
        placement->on_npu[i] = nodes;
}

void op_placement_fill(const OpPlacement *placement, size_t n_groups, uint64_t *on_npu) {
    const size_t n = simulated_groups(n_groups);

    for (size_t i = 0; i < n_groups; i++)
        on_npu[i] = placement->on_npu[i < n_groups - n ? i % n : i - (n_groups - n)];
}

/* --- the simulation ----------------------------------------------------------------------------------------------- */

typedef struct Sim {
    const OpPlacementCase *of;
    size_t first_group; /* of the case: those before are left out */
    OpQueues queues;
    double until_ns[BACKEND_PRODUCT_SLOTS_MAX]; /* when the product of a slot ends */
    double now_ns, npu_free_ns;
} Sim;

static uint32_t simulated_layers(const OpPlacementCase *of) {
    return MIN(of->queues->n_layers, OP_PLACEMENT_LAYERS);
}

/* Returns the work of a group in a node, as a share of what the times are of. */
static double share_of(const OpPlacementCase *of, size_t group, size_t node) {
    return of->attention_shares && of->queues->graph->nodes[node].class == OP_CLASS_ATTENTION
               ? of->attention_shares[group]
               : of->shares[group];
}

static double share_in(const Sim *sim, const OpRef *ref) {
    return share_of(sim->of, sim->first_group + ref->group, ref->node);
}

static void sim_submit(void *arg, size_t slot, const OpRef *ref) {
    Sim *sim = arg;
    const OpTimes *times = sim->of->times;

    sim->now_ns += times->begin_ns[ref->node] * share_in(sim, ref);
    if (sim->npu_free_ns < sim->now_ns)
        sim->npu_free_ns = sim->now_ns;
    sim->npu_free_ns += times->ns[OP_QUEUE_NPU][ref->node];
    sim->until_ns[slot] = sim->npu_free_ns;
}

static bool sim_is_over(void *arg, size_t slot) {
    const Sim *sim = arg;

    return sim->until_ns[slot] <= sim->now_ns;
}

static int sim_end(void *arg, size_t slot, const OpRef *ref, ErrText *err) {
    Sim *sim = arg;

    if (sim->now_ns < sim->until_ns[slot])
        sim->now_ns = sim->until_ns[slot];
    sim->now_ns += sim->of->times->end_ns[ref->node] * share_in(sim, ref);
    op_queues_end(&sim->queues, ref, OP_QUEUE_NPU, 0);
    return 0;
}

/* Time of a whole node on the processors. */
static double cpu_ns(const OpTimes *times, size_t node) {
    return times->begin_ns[node] + times->ns[OP_QUEUE_CPU][node] + times->end_ns[node];
}

static int sim_run(void *arg, const OpRef *ref, bool is_stolen, ErrText *err) {
    Sim *sim = arg;

    if (sim->queues.joint[ref->group] >> ref->node & 1) {
        sim->now_ns =
            MAX(sim->now_ns, sim->npu_free_ns) + sim->of->times->ns[OP_QUEUE_NPU][ref->node] * share_in(sim, ref);
    } else {
        sim->now_ns += cpu_ns(sim->of->times, ref->node) * share_in(sim, ref);
    }
    op_queues_end(&sim->queues, ref, OP_QUEUE_CPU, 0);
    return 0;
}

static const OpLoopOps sim_ops = {
    .submit = sim_submit,
    .is_over = sim_is_over,
    .end = sim_end,
    .run = sim_run,
};

double op_placement_predict(const OpPlacementCase *of, const uint64_t *on_npu) {
    OpQueueLayer layers[OP_PLACEMENT_GROUPS * OP_PLACEMENT_LAYERS];
    OpQueuesSetup setup = *of->queues;
    Sim sim = { .of = of, .queues.times = *of->times };
    OpLoop loop = { .ops = &sim_ops, .arg = &sim, .queues = &sim.queues, .n_slots = of->n_slots };

    assert(of->n_slots && of->n_slots <= BACKEND_PRODUCT_SLOTS_MAX);
    setup.layers = layers;
    setup.n_groups = simulated_groups(of->queues->n_groups);
    setup.n_layers = simulated_layers(of);
    sim.first_group = of->queues->n_groups - setup.n_groups;
    setup.continues = setup.continues >> sim.first_group & ~UINT64_C(1);
    memcpy(setup.on_npu, on_npu + sim.first_group, setup.n_groups * sizeof(*on_npu));
    op_queues_begin(&sim.queues, &setup);
    while (!op_queues_have_ended(&sim.queues))
        (void)op_loop_go_on(&loop, NULL); /* nothing fails in it */
    return sim.now_ns;
}

/* --- the choice --------------------------------------------------------------------------------------------------- */

/* Returns a lower bound of the time: the work of the busier side, without any waiting. */
static double least_of(const OpPlacementCase *of, const uint64_t *on_npu) {
    const OpTimes *times = of->times;
    const uint64_t products = op_queues_products(of->queues->graph);
    double npu = 0, cpu = 0;

    for (size_t group = of->queues->n_groups - simulated_groups(of->queues->n_groups); group < of->queues->n_groups;
         group++)
        for (size_t node = 0; node < of->queues->graph->n; node++) {
            const double share = share_of(of, group, node), npu_ns = times->ns[OP_QUEUE_NPU][node];

            if (on_npu[group] & ~products & UINT64_C(1) << node) {
                npu += npu_ns * share;
                cpu += npu_ns * share;
            } else if (on_npu[group] >> node & 1) {
                npu += npu_ns;
                cpu += (times->begin_ns[node] + times->end_ns[node]) * share;
            } else {
                cpu += cpu_ns(times, node) * share;
            }
        }
    return MAX(npu, cpu) * simulated_layers(of);
}

/* Whether products may be stolen: then no side's work is known beforehand. */
static bool may_steal(const OpQueuesSetup *setup) {
    return setup->order == OP_ORDER_POSITION && setup->steal_beyond != OP_STEAL_NEVER;
}

/* Returns the time of a placement, or below_ns if the time is not less. */
static double time_of(const OpPlacementCase *of, const OpPlacement *placement, double below_ns) {
    uint64_t on_npu[OP_QUEUES_GROUPS_MAX];
    double ns;

    op_placement_fill(placement, of->queues->n_groups, on_npu);
    if (!may_steal(of->queues) && least_of(of, on_npu) >= below_ns)
        return below_ns;
    ns = op_placement_predict(of, on_npu);
    return MIN(ns, below_ns);
}

/* Makes the best move, if one saves enough. */
static bool move_best(const OpPlacementCase *of, uint64_t nodes, OpPlacement *placement) {
    double best_ns = placement->placed_ns * (1 - LEAST_MOVE);
    OpPlacement best = *placement;
    bool moves = false;

    for (size_t group = 0; group < placement->n_groups; group++)
        for (uint64_t left = nodes; left; left &= left - 1) {
            OpPlacement tried = *placement;
            double ns;

            tried.on_npu[group] ^= left & -left;
            ns = time_of(of, &tried, best_ns);
            if (ns < best_ns) {
                best = tried;
                best.placed_ns = best_ns = ns;
                moves = true;
            }
        }
    *placement = best;
    return moves;
}

/* Moves nodes from where they are until no move saves anything to speak of. */
static void improve(const OpPlacementCase *of, uint64_t nodes, OpPlacement *placement) {
    while (move_best(of, nodes, placement))
        continue;
}

void op_placement_choose(const OpPlacementCase *of, OpPlacement *placement) {
    const uint64_t products = op_queues_products(of->queues->graph), nodes = products | of->joint;
    OpPlacement all, best, other;

    op_placement_init(&all, products);
    placement->n_groups = all.n_groups = simulated_groups(of->queues->n_groups);
    for (size_t i = 0; i < OP_PLACEMENT_GROUPS; i++)
        placement->on_npu[i] &= nodes;
    all.placed_ns = time_of(of, &all, HUGE_VAL);
    placement->placed_ns = time_of(of, placement, HUGE_VAL);
    placement->all_npu_ns = all.all_npu_ns = all.placed_ns;
    best = *placement;
    improve(of, nodes, &best);
    other = all;
    if (memcmp(all.on_npu, placement->on_npu, sizeof(all.on_npu)) != 0)
        improve(of, nodes, &other);
    if (other.placed_ns < best.placed_ns)
        best = other;
    if (best.placed_ns >= all.placed_ns * (1 - LEAST_GAIN))
        *placement = all;
    else if (best.placed_ns < placement->placed_ns * (1 - LEAST_GAIN) ||
             placement->placed_ns >= all.placed_ns * (1 - LEAST_GAIN))
        *placement = best;
}
