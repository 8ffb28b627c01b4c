// SPDX-License-Identifier: Apache-2.0
/* Static graphs of two kinds, for the rows of a prompt's chunk and for the few rows of decoding, which cannot share
 * weights: which of them a block of layers is computed with, and when which is loaded (CoordGen 3.2). Knows no model,
 * no device and no file: it is told what is there, and says what to load, to use and to drop. */
#ifndef COORDGEN_SCHEDULER_GRAPH_SWITCH_H
#define COORDGEN_SCHEDULER_GRAPH_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/graph_times.h"

/* All but one have one kind of each block in memory, and one block more while it is loaded. */
typedef enum GraphSwitchPolicy {
    GRAPH_SWITCH_PROGRESSIVE, /* while the prompt is computed: from the last block to the first, hidden behind others */
    GRAPH_SWITCH_NONE,        /* both kinds are in memory */
    GRAPH_SWITCH_SYNC,        /* a block is loaded when it is to be computed, which waits for it */
    GRAPH_SWITCH_ASYNC,       /* behind its part of the prompt's last chunk, while others are computed */
    _GRAPH_SWITCH_N,
} GraphSwitchPolicy;

const char *graph_switch_name(GraphSwitchPolicy policy); /* "progressive" */
/* false: there is none of that name. */
bool graph_switch_named(const char *name, GraphSwitchPolicy *policyp);

#define GRAPH_BLOCKS_MAX 64

/* When blocks are switched in the chunks of a prompt that are left. A position is one chunk in one block: the first
 * chunk in all blocks, then the second. A load begins where a block does, if there is none under way. */
typedef struct GraphPlan {
    bool goes_back;              /* blocks that are of decoding become those of prompts before */
    uint64_t begin;              /* from this position on blocks become those of decoding */
    size_t n_hiding;             /* least number of blocks whose computing takes as long as a load (Eq. 2) */
    GraphTimes times;            /* that it was made by: of a step, where that is no chunk */
    double prefill_ns, stall_ns; /* as predicted: until the last position is computed, then until all is switched */
} GraphPlan;

/* is[n_blocks]: which kind each block is; n_positions are left, from block `first` on. The plan with the least sum of
 * both times; of equals the one that begins first. must_go_back: of those that leave blocks time to become those of
 * prompts before, where there are so many positions. */
void graph_plan_make(GraphPlan *plan, const GraphTimes *times, const GraphKind *is, size_t n_blocks, size_t first,
                     uint64_t n_positions, bool must_go_back);
/* What a plan with this begin comes to. */
void graph_plan_predict(GraphPlan *plan, const GraphTimes *times, const GraphKind *is, size_t n_blocks, size_t first,
                        uint64_t n_positions);

/* Begin with graph_switch_init(). One thread. */
typedef struct GraphSwitch {
    GraphSwitchPolicy policy;
    size_t n_blocks;
    GraphTimes times;
    size_t prefill_rows, decode_rows;
    bool must_go_back; /* the caller's: to the graphs of prompts for each, whatever the times say */
    bool is_there[GRAPH_BLOCKS_MAX][_GRAPH_KIND_N];
    size_t loading; /* block, n_blocks: none */
    GraphKind loading_kind;
    size_t held; /* block that is being computed, n_blocks: none */
    GraphKind held_kind;
    size_t wanted; /* block that somebody waits for, n_blocks: none */
    GraphKind wanted_kind;
    /* Of the step. */
    GraphKind step_kind; /* that is best for its rows */
    bool is_prompt;      /* more rows than those of decoding, and of its prompts, too */
    bool is_last;        /* no rows of its prompts follow */
    size_t at;           /* blocks below are computed */
    GraphPlan plan;
    uint64_t n_positions; /* that the plan is for */
    uint64_t position;
    size_t left;    /* rows of its prompts that are to come: a step that begins with as many goes on with them */
    bool goes_on;   /* it does, or the step itself does, in the middle of the layers */
    bool has_begun; /* blocks become those of decoding, and in these prompts there is no way back */
} GraphSwitch;

void graph_switch_init(GraphSwitch *graphs, GraphSwitchPolicy policy, size_t n_blocks, size_t prefill_rows,
                       size_t decode_rows);
/* Slots of one block each that it needs. */
size_t graph_switch_slots(GraphSwitchPolicy policy, size_t n_blocks);
/* A step of so many rows, which is before block `at`; prompt_rows of them are of prompts, n_behind more of which
 * come in later steps. */
void graph_switch_step(GraphSwitch *graphs, size_t rows, size_t prompt_rows, size_t n_behind, size_t at);
/* Which kind a block is computed with, which holds it until graph_switch_computed(); GRAPH_NONE: it must wait. */
GraphKind graph_switch_use(GraphSwitch *graphs, size_t block);
/* is_done: it was computed, and not left in the middle. */
void graph_switch_computed(GraphSwitch *graphs, size_t block, bool is_done);
/* What to load now, as begun then; false: nothing. */
bool graph_switch_load(GraphSwitch *graphs, size_t *blockp, GraphKind *kindp);
void graph_switch_loaded(GraphSwitch *graphs, bool is_good);
/* What to drop now, as dropped then; false: nothing. */
bool graph_switch_drop(GraphSwitch *graphs, size_t *blockp, GraphKind *kindp);
/* Why the blocks of the step's prompt are switched when they are: one line for a person. */
void graph_switch_explain(const GraphSwitch *graphs, char *text, size_t room_bytes);

#endif
