// SPDX-License-Identifier: Apache-2.0
/*
 * Plans when blocks are switched during a prompt. The paper begins with the first chunk; then all later chunks run on
 * graphs that are made for few rows. Here the switch begins as late as its loads can still be hidden. Every begin is
 * tried on a model of the work: loads begin between two blocks, and a block is computed with its old graph until the
 * new one is there, for there is room for one block more. From its begin on the plan is the paper's greedy rule: the
 * last block that is not switched is loaded behind the least number of blocks that take as long.
 */
#include "scheduler/graphs/graph_plan.h"

#include <string.h>

#include "base/min_max.h"

/* Up to so many positions every begin is tried, in a quarter of a millisecond. */
#define TRIES 256

/* The work of a plan, position by position. */
typedef struct PlanRun {
    const GraphTimes *times;
    GraphKind is[GRAPH_BLOCKS_MAX];
    size_t n_blocks;
    double now_ns, loaded_ns;
    size_t loading; /* n_blocks: none */
    GraphKind loading_kind;
} PlanRun;

/* Counts the load that is under way as there, if its time has come. */
static void end_load(PlanRun *run) {
    if (run->loading == run->n_blocks || run->loaded_ns > run->now_ns)
        return;
    run->is[run->loading] = run->loading_kind;
    run->loading = run->n_blocks;
}

/* Begins to load the last block that is not of this kind. */
static void begin_load(PlanRun *run, GraphKind kind) {
    if (run->loading != run->n_blocks)
        return;
    for (size_t block = run->n_blocks; block-- > 0;)
        if (run->is[block] != kind) {
            run->loading = block;
            run->loading_kind = kind;
            run->loaded_ns = run->now_ns + run->times->load_ns[kind];
            return;
        }
}

void graph_plan_predict(GraphPlan *plan, const GraphTimes *times, const GraphKind *is, size_t n_blocks, size_t first,
                        uint64_t n_positions) {
    PlanRun run = { .times = times, .n_blocks = n_blocks, .loading = n_blocks };

    plan->times = *times;
    memcpy(run.is, is, n_blocks * sizeof(*is));
    for (uint64_t position = 0; position < n_positions; position++) {
        const size_t block = (first + position) % n_blocks;

        end_load(&run);
        if (position >= plan->begin)
            begin_load(&run, GRAPH_DECODE);
        else if (plan->goes_back)
            begin_load(&run, GRAPH_PREFILL);
        run.now_ns += times->compute_ns[run.is[block] == GRAPH_NONE ? GRAPH_PREFILL : run.is[block]];
    }
    plan->prefill_ns = run.now_ns;
    for (;;) {
        end_load(&run);
        begin_load(&run, GRAPH_DECODE);
        if (run.loading == n_blocks)
            break;
        run.now_ns = MAX(run.loaded_ns, run.now_ns);
    }
    plan->stall_ns = run.now_ns - plan->prefill_ns;
}

/* Eq. 2 with equal blocks, all on prompt graphs, as most are when the switch begins. */
static size_t hiding_blocks(const GraphTimes *times) {
    const double compute_ns = times->compute_ns[GRAPH_PREFILL], load_ns = times->load_ns[GRAPH_DECODE];
    size_t n = 1;

    while (n < 1000 && compute_ns > 0 && (double)n * compute_ns < load_ns)
        n++;
    return n;
}

static bool is_known(const GraphTimes *times) {
    for (size_t kind = 0; kind < _GRAPH_KIND_N; kind++)
        if (!(times->compute_ns[kind] > 0 && times->load_ns[kind] > 0))
            return false;
    return true;
}

/* Replaces the plan by one with this begin, if that is better. */
static void try_begin(GraphPlan *plan, const GraphTimes *times, const GraphKind *is, size_t n_blocks, size_t first,
                      uint64_t n_positions, bool goes_back, uint64_t begin) {
    GraphPlan other = { .goes_back = goes_back, .begin = begin, .n_hiding = plan->n_hiding };

    graph_plan_predict(&other, times, is, n_blocks, first, n_positions);
    if (other.prefill_ns + other.stall_ns < plan->prefill_ns + plan->stall_ns)
        *plan = other;
}

void graph_plan_make(GraphPlan *plan, const GraphTimes *times, const GraphKind *is, size_t n_blocks, size_t first,
                     uint64_t n_positions, bool must_go_back) {
    uint64_t earliest;

    *plan = (GraphPlan){ .n_hiding = hiding_blocks(times) }; /* from the first chunk on, as the paper does it */
    must_go_back = must_go_back && (uint64_t)n_blocks * plan->n_hiding < n_positions;
    if (must_go_back) {
        plan->goes_back = true;
        plan->begin = (uint64_t)n_blocks * plan->n_hiding;
    }
    graph_plan_predict(plan, times, is, n_blocks, first, n_positions);
    if (!is_known(times))
        return;
    /* All loads fit into the last positions: in a long prompt, an earlier begin is too early. */
    earliest = (uint64_t)n_blocks * (plan->n_hiding + 2);
    earliest = n_positions > TRIES && n_positions > earliest ? n_positions - earliest : 0;
    earliest = must_go_back && plan->begin > earliest ? plan->begin : earliest;
    for (int goes_back = must_go_back; goes_back < 2; goes_back++)
        for (uint64_t begin = earliest; begin <= n_positions; begin++)
            try_begin(plan, times, is, n_blocks, first, n_positions, goes_back, begin);
}
