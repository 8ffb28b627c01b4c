// SPDX-License-Identifier: Apache-2.0
/* Ways of drafting in cells of the matrix: the sources of drafts, and how many drafts a step has. */
#ifndef COORDGEN_EVAL_MATRIX_WAY_H
#define COORDGEN_EVAL_MATRIX_WAY_H

#include "engine/generation.h"
#include "tools/exit/exit_pruning.h"

/* Ways that other cells name; the remaining ways are only in cells about drafts. */
enum {
    WAY_PLAIN,
    WAY_TREE,       /* default of cells about something else */
    WAY_SMALL_TREE, /* default of cells with slow kernels */
    WAY_PRUNED,     /* rows end at a middle layer */
    WAY_SELF,       /* the model's first layers draft */
    WAY_OURS,       /* with a draft model */
    WAY_LEVER,
    WAY_CHAIN, /* drafts of the tree as one chain */
    WAY_N = 22
};

/* A way of drafting. All ways but WAY_PLAIN and the controlled ones always draft as many rows as there is room for. */
typedef struct MatrixWay {
    const char *name;
    GenerationSpeculation speculation;
    ExitPruningMode pruning; /* by a logit lens behind half of the layers */
    bool with_model;         /* a draft model, the target itself, so that its greedy drafts are right */
    bool by_itself;          /* the layers in memory draft; if all are in memory, half of them */
} MatrixWay;

extern const MatrixWay matrix_ways[WAY_N];

/* Returns the settings for a generation of this engine. */
GenerationSpeculation matrix_way_speculation(const MatrixWay *way, const Engine *engine);

#endif
