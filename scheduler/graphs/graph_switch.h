// SPDX-License-Identifier: Apache-2.0
/* Decides which static graph a block of layers is computed with, and when which graph is loaded (CoordGen 3.2). There
 * are two kinds, for the rows of a prompt's chunk and for the few rows of decoding, and they cannot share weights. The
 * module knows no model, no device and no file: its caller says what is there, and carries out loads and drops. */
#ifndef COORDGEN_SCHEDULER_GRAPH_SWITCH_H
#define COORDGEN_SCHEDULER_GRAPH_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strings/choice.h"
#include "scheduler/graphs/graph_plan.h"

/* All policies but GRAPH_SWITCH_NONE keep one kind of each block in memory, and one block more while it is loaded. */
typedef enum GraphSwitchPolicy {
    GRAPH_SWITCH_PROGRESSIVE, /* loads hide behind the prompt's computing, from the last block to the first */
    GRAPH_SWITCH_NONE,        /* both kinds are in memory */
    GRAPH_SWITCH_SYNC,        /* a block is loaded when it is to be computed, and the step waits */
    GRAPH_SWITCH_ASYNC,       /* a block is loaded after its part of the prompt's last chunk, while others compute */
    _GRAPH_SWITCH_N,
} GraphSwitchPolicy;

extern const Choice graph_switch_choices[];              /* GraphSwitchPolicy */
const char *graph_switch_name(GraphSwitchPolicy policy); /* "progressive" */

/* A graph of a block; block is n_blocks: none. */
typedef struct BlockGraph {
    size_t block;
    GraphKind kind;
} BlockGraph;

/* The step that is computed. */
typedef struct GraphStep {
    GraphKind kind; /* the best one for its rows */
    bool is_prompt; /* the step, and its prompts alone, have more rows than a decode graph */
    bool is_last;   /* no rows of its prompts follow */
    size_t at;      /* blocks below this one are computed */
    GraphPlan plan;
    uint64_t n_positions; /* that the plan is for */
    uint64_t position;
    size_t left;    /* rows of its prompts in later steps; the step that begins with as many continues these prompts */
    bool goes_on;   /* the step continues such prompts, or a step that stopped in the middle of the layers */
    bool has_begun; /* the switch to decode graphs has begun: within these prompts there is no way back */
} GraphStep;

/* Switches that only the laboratory (tools/) and tests set; all are off in the product. */
typedef struct GraphLab {
    bool must_go_back; /* every prompt gets prompt graphs, whatever the times say */
} GraphLab;

/* Begin with graph_switch_init(). One thread. */
typedef struct GraphSwitch {
    GraphSwitchPolicy policy;
    size_t n_blocks;
    GraphTimes times;
    size_t prefill_rows, decode_rows;
    GraphLab lab; /* set by the caller */
    bool is_there[GRAPH_BLOCKS_MAX][_GRAPH_KIND_N];
    BlockGraph loading;
    BlockGraph held;   /* being computed */
    BlockGraph wanted; /* somebody waits for it */
    GraphStep step;
} GraphSwitch;

void graph_switch_init(GraphSwitch *graphs, GraphSwitchPolicy policy, size_t n_blocks, size_t prefill_rows,
                       size_t decode_rows);
/* Returns how many slots of one block a policy needs. */
size_t graph_switch_slots(GraphSwitchPolicy policy, size_t n_blocks);
/* Begins a step of so many rows at block `at`. prompt_rows of them are of prompts, whose other n_behind rows come in
 * later steps. */
void graph_switch_step(GraphSwitch *graphs, size_t rows, size_t prompt_rows, size_t n_behind, size_t at);
/* Returns the kind that a block is computed with, and holds that graph until graph_switch_computed(). GRAPH_NONE: the
 * step must wait. */
GraphKind graph_switch_use(GraphSwitch *graphs, size_t block);
/* Releases the block that is held. is_done: it was computed, and not left in the middle. */
void graph_switch_computed(GraphSwitch *graphs, size_t block, bool is_done);
/* Returns what to load now, and counts the load as begun. false: nothing. */
bool graph_switch_load(GraphSwitch *graphs, size_t *blockp, GraphKind *kindp);
/* Ends the load that is under way. is_good: the graph is there. */
void graph_switch_loaded(GraphSwitch *graphs, bool is_good);
/* Returns what to drop now, and counts it as dropped. false: nothing. */
bool graph_switch_drop(GraphSwitch *graphs, size_t *blockp, GraphKind *kindp);
/* Writes one line for a person: why the blocks of the step's prompt are switched when they are. */
void graph_switch_explain(const GraphSwitch *graphs, char *text, size_t room_bytes);

#endif
