// SPDX-License-Identifier: Apache-2.0
#include "scheduler/graphs/graph_switch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Loads that take longer than before are hidden, too: a begin that is a little early costs little, a late one keeps the
 * first token waiting. */
#define LOAD_MARGIN 1.25

const Choice graph_switch_choices[] = {
    { "none", GRAPH_SWITCH_NONE },
    { "sync", GRAPH_SWITCH_SYNC },
    { "async", GRAPH_SWITCH_ASYNC },
    { "progressive", GRAPH_SWITCH_PROGRESSIVE },
    { NULL, 0 },
};

const char *graph_switch_name(GraphSwitchPolicy policy) {
    return choice_name(graph_switch_choices, policy);
}

void graph_switch_init(GraphSwitch *graphs, GraphSwitchPolicy policy, size_t n_blocks, size_t prefill_rows,
                       size_t decode_rows) {
    assert(n_blocks && n_blocks <= GRAPH_BLOCKS_MAX && decode_rows && prefill_rows % decode_rows == 0);
    *graphs = (GraphSwitch){ .policy = policy,
                             .n_blocks = n_blocks,
                             .prefill_rows = prefill_rows,
                             .decode_rows = decode_rows,
                             .loading.block = n_blocks,
                             .held.block = n_blocks,
                             .wanted.block = n_blocks,
                             .step.is_prompt = true };
}

size_t graph_switch_slots(GraphSwitchPolicy policy, size_t n_blocks) {
    return policy == GRAPH_SWITCH_NONE ? 2 * n_blocks : n_blocks + 1;
}

static uint64_t pieces(uint64_t rows, size_t rows_of_graph) {
    return (rows + rows_of_graph - 1) / rows_of_graph;
}

/* Returns the kind that computes so many rows sooner. Each kind takes rows in pieces, and a piece costs as much as a
 * full one. Where graphs are loaded and dropped, a full chunk always gets the prompt graphs: the last times change with
 * the machine's load, and graphs must not be loaded to and fro with them. Rows of decoding never load prompt graphs,
 * however many there are: the next step has fewer again. */
static GraphKind best_kind(const GraphSwitch *graphs, uint64_t rows, uint64_t prompt_rows) {
    const double *compute_ns = graphs->times.compute_ns;
    const double pieces_of_chunk = (double)(graphs->prefill_rows / graphs->decode_rows);

    if (rows <= graphs->decode_rows)
        return GRAPH_DECODE;
    if (prompt_rows <= graphs->decode_rows && graphs->policy != GRAPH_SWITCH_NONE)
        return GRAPH_DECODE;
    if (rows >= graphs->prefill_rows && graphs->policy != GRAPH_SWITCH_NONE)
        return GRAPH_PREFILL;
    if (!(compute_ns[GRAPH_PREFILL] > 0 && compute_ns[GRAPH_DECODE] > 0))
        return GRAPH_PREFILL;
    return (double)pieces(rows, graphs->prefill_rows) * compute_ns[GRAPH_PREFILL] <=
                   (double)pieces(rows, graphs->decode_rows) * compute_ns[GRAPH_DECODE] / pieces_of_chunk
               ? GRAPH_PREFILL
               : GRAPH_DECODE;
}

/* Returns the kind that is in memory; GRAPH_DECODE if both are. */
static GraphKind kind_of(const GraphSwitch *graphs, size_t block) {
    return graphs->is_there[block][GRAPH_DECODE]    ? GRAPH_DECODE
           : graphs->is_there[block][GRAPH_PREFILL] ? GRAPH_PREFILL
                                                    : GRAPH_NONE;
}

/* Returns the number of steps like this one that the rows make. A last step of few rows does not count: it runs on
 * decode graphs. */
static uint64_t steps_of(const GraphSwitch *graphs, size_t rows, size_t n_behind) {
    return 1 + n_behind / rows + (n_behind % rows > graphs->decode_rows);
}

static void plan_step(GraphSwitch *graphs, size_t rows) {
    const double *compute_ns = graphs->times.compute_ns;
    GraphTimes times = graphs->times; /* for a step in place of a chunk */
    GraphKind is[GRAPH_BLOCKS_MAX];

    times.compute_ns[GRAPH_PREFILL] = compute_ns[GRAPH_PREFILL] * (double)pieces(rows, graphs->prefill_rows);
    times.compute_ns[GRAPH_DECODE] = compute_ns[GRAPH_DECODE] * (double)pieces(rows, graphs->decode_rows) /
                                     (double)(graphs->prefill_rows / graphs->decode_rows);
    for (size_t kind = 0; kind < _GRAPH_KIND_N; kind++)
        times.load_ns[kind] *= LOAD_MARGIN;
    for (size_t block = 0; block < graphs->n_blocks; block++)
        is[block] = kind_of(graphs, block);
    if (graphs->step.has_begun) /* newer times must not load graphs to and fro */
        graph_plan_predict(&graphs->step.plan, &times, is, graphs->n_blocks, graphs->step.at % graphs->n_blocks,
                           graphs->step.n_positions);
    else
        graph_plan_make(&graphs->step.plan, &times, is, graphs->n_blocks, graphs->step.at % graphs->n_blocks,
                        graphs->step.n_positions, graphs->lab.must_go_back && !graphs->step.goes_on);
}

void graph_switch_step(GraphSwitch *graphs, size_t rows, size_t prompt_rows, size_t n_behind, size_t at) {
    GraphStep *step = &graphs->step;

    assert(rows && prompt_rows <= rows && at <= graphs->n_blocks && graphs->held.block == graphs->n_blocks);
    graphs->wanted.block = graphs->n_blocks;
    step->kind = best_kind(graphs, (uint64_t)rows + n_behind, (uint64_t)prompt_rows + n_behind);
    step->is_prompt = rows > graphs->decode_rows && prompt_rows + n_behind > graphs->decode_rows;
    step->is_last = n_behind <= graphs->decode_rows;
    step->at = at;
    step->position = 0;
    step->n_positions = steps_of(graphs, rows, n_behind) * graphs->n_blocks - at;
    step->goes_on = at ? step->left == n_behind : step->left && step->left == rows + n_behind;
    step->has_begun = step->has_begun && step->goes_on;
    step->left = n_behind;
    step->plan = (GraphPlan){ .n_hiding = step->has_begun ? step->plan.n_hiding : 1 };
    if (graphs->policy == GRAPH_SWITCH_PROGRESSIVE && step->is_prompt)
        plan_step(graphs, rows);
}

/* Whether the step may compute a block with the other kind, too. */
static bool takes_any(const GraphSwitch *graphs) {
    return graphs->policy == GRAPH_SWITCH_NONE || (graphs->policy != GRAPH_SWITCH_SYNC && graphs->step.is_prompt);
}

GraphKind graph_switch_use(GraphSwitch *graphs, size_t block) {
    GraphKind kind = graphs->step.kind;

    assert(block < graphs->n_blocks && graphs->held.block == graphs->n_blocks);
    if (!graphs->is_there[block][kind] && takes_any(graphs))
        kind = kind_of(graphs, block);
    if (kind == GRAPH_NONE || !graphs->is_there[block][kind]) {
        graphs->wanted = (BlockGraph){ block, graphs->step.kind };
        return GRAPH_NONE;
    }
    graphs->wanted.block = graphs->n_blocks;
    graphs->held = (BlockGraph){ block, kind };
    return kind;
}

void graph_switch_computed(GraphSwitch *graphs, size_t block, bool is_done) {
    assert(graphs->held.block == block);
    graphs->held.block = graphs->n_blocks;
    if (!is_done)
        return;
    graphs->step.at = block + 1;
    graphs->step.position++;
}

/* --- loads -------------------------------------------------------------------------------------------------------- */

static size_t n_used(const GraphSwitch *graphs) {
    size_t n = graphs->loading.block < graphs->n_blocks;

    for (size_t block = 0; block < graphs->n_blocks; block++)
        n += (size_t)graphs->is_there[block][GRAPH_PREFILL] + graphs->is_there[block][GRAPH_DECODE];
    return n;
}

/* Returns the next block without this kind, in a circle from where the step is; GRAPH_NONE: the next block without any
 * graph. n_blocks: there is none. */
static size_t next_without(const GraphSwitch *graphs, GraphKind kind) {
    for (size_t i = 0; i < graphs->n_blocks; i++) {
        const size_t block = (graphs->step.at + i) % graphs->n_blocks;

        if (kind == GRAPH_NONE ? kind_of(graphs, block) == GRAPH_NONE : !graphs->is_there[block][kind])
            return block;
    }
    return graphs->n_blocks;
}

static size_t last_without(const GraphSwitch *graphs, GraphKind kind) {
    for (size_t block = graphs->n_blocks; block-- > 0;)
        if (!graphs->is_there[block][kind])
            return block;
    return graphs->n_blocks;
}

/* In the prompt's last chunk: a block that is computed and has no decode graph. Before: a block without the step's own
 * kind. */
static size_t async_load(const GraphSwitch *graphs, GraphKind *kindp) {
    if (!graphs->step.is_prompt) {
        *kindp = GRAPH_DECODE;
        return next_without(graphs, GRAPH_DECODE);
    }
    *kindp = graphs->step.is_last ? GRAPH_DECODE : graphs->step.kind;
    if (!graphs->step.is_last)
        return next_without(graphs, graphs->step.kind);
    for (size_t block = 0; block < graphs->step.at; block++)
        if (!graphs->is_there[block][GRAPH_DECODE])
            return block;
    return graphs->n_blocks;
}

static size_t progressive_load(GraphSwitch *graphs, GraphKind *kindp) {
    if (!graphs->step.is_prompt) {
        *kindp = GRAPH_DECODE;
        return next_without(graphs, GRAPH_DECODE);
    }
    if (graphs->step.position < graphs->step.plan.begin && !graphs->step.plan.goes_back)
        return graphs->n_blocks;
    *kindp = graphs->step.position < graphs->step.plan.begin ? GRAPH_PREFILL : GRAPH_DECODE;
    graphs->step.has_begun = *kindp == GRAPH_DECODE;
    return last_without(graphs, *kindp);
}

/* Returns the policy's choice, when nobody waits and every block has a graph. */
static size_t policy_load(GraphSwitch *graphs, GraphKind *kindp) {
    size_t block;

    switch (graphs->policy) {
    case GRAPH_SWITCH_NONE:
        *kindp = GRAPH_PREFILL;
        block = next_without(graphs, GRAPH_PREFILL);
        if (block < graphs->n_blocks)
            return block;
        *kindp = GRAPH_DECODE;
        return next_without(graphs, GRAPH_DECODE);
    case GRAPH_SWITCH_ASYNC:
        return async_load(graphs, kindp);
    case GRAPH_SWITCH_PROGRESSIVE:
        return progressive_load(graphs, kindp);
    default:
        return graphs->n_blocks;
    }
}

bool graph_switch_load(GraphSwitch *graphs, size_t *blockp, GraphKind *kindp) {
    GraphKind kind = graphs->step.kind;
    size_t block;

    if (graphs->loading.block < graphs->n_blocks ||
        n_used(graphs) == graph_switch_slots(graphs->policy, graphs->n_blocks))
        return false;
    if (graphs->wanted.block < graphs->n_blocks && !graphs->is_there[graphs->wanted.block][graphs->wanted.kind]) {
        block = graphs->wanted.block;
        kind = graphs->wanted.kind;
    } else {
        block = next_without(graphs, GRAPH_NONE);
        if (block == graphs->n_blocks)
            block = policy_load(graphs, &kind);
    }
    if (block == graphs->n_blocks)
        return false;
    graphs->loading = (BlockGraph){ *blockp = block, *kindp = kind };
    return true;
}

void graph_switch_loaded(GraphSwitch *graphs, bool is_good) {
    assert(graphs->loading.block < graphs->n_blocks);
    graphs->is_there[graphs->loading.block][graphs->loading.kind] = is_good;
    graphs->loading.block = graphs->n_blocks;
}

/* Drops the older graph of a block with both kinds: the one that was loaded last is wanted. After a prompt, drops the
 * graph that the step does not want: a prompt graph that comes late must not cost decoding another load. */
bool graph_switch_drop(GraphSwitch *graphs, size_t *blockp, GraphKind *kindp) {
    if (graphs->policy == GRAPH_SWITCH_NONE)
        return false;
    for (size_t block = 0; block < graphs->n_blocks; block++) {
        const GraphKind kept = graphs->step.is_prompt ? graphs->loading.kind : graphs->step.kind,
                        old = kept == GRAPH_DECODE ? GRAPH_PREFILL : GRAPH_DECODE;

        if (!graphs->is_there[block][GRAPH_PREFILL] || !graphs->is_there[block][GRAPH_DECODE] ||
            (graphs->held.block == block && graphs->held.kind == old))
            continue;
        graphs->is_there[block][old] = false;
        *blockp = block;
        *kindp = old;
        return true;
    }
    return false;
}

void graph_switch_explain(const GraphSwitch *graphs, char *text, size_t room_bytes) {
    const GraphPlan *plan = &graphs->step.plan;
    const GraphTimes *times = &plan->times;

    if (graphs->policy != GRAPH_SWITCH_PROGRESSIVE || !graphs->step.is_prompt) {
        snprintf(text, room_bytes, "%zu blocks, policy %s", graphs->n_blocks, graph_switch_name(graphs->policy));
        return;
    }
    snprintf(text, room_bytes,
             "%zu blocks: a chunk takes %.2f ms through one (%.2f ms with the graph of decoding), a load "
             "%.2f ms with a quarter more, which %zu of them hide; %sof %" PRIu64
             " that are to be computed the switch begins with number %" PRIu64
             "; predicted: prefill %.1f ms, then %.1f ms of waiting",
             graphs->n_blocks, times->compute_ns[GRAPH_PREFILL] / 1e6, times->compute_ns[GRAPH_DECODE] / 1e6,
             times->load_ns[GRAPH_DECODE] / 1e6, plan->n_hiding,
             plan->goes_back ? "blocks go back to the graphs of prompts first; " : "", graphs->step.n_positions,
             plan->begin + 1, plan->prefill_ns / 1e6, plan->stall_ns / 1e6);
}
