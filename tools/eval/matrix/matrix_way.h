// SPDX-License-Identifier: Apache-2.0
/* The ways of drafting that the matrix has cells for: from which drafts a step computes several tokens, how many. */
#ifndef COORDGEN_EVAL_MATRIX_WAY_H
#define COORDGEN_EVAL_MATRIX_WAY_H

#include "engine/generation.h"

/* Those that cells name; the others are in cells about drafts alone. */
enum {
    WAY_PLAIN,
    WAY_TREE,       /* what cells have that are about something else */
    WAY_SMALL_TREE, /* and for kernels that take long */
    WAY_PRUNED,     /* rows end at a middle layer */
    WAY_SELF,       /* the first layers draft for all of them */
    WAY_OURS,       /* with a draft model */
    WAY_LEVER,
    WAY_CHAIN, /* as a tree, but one after the other */
    WAY_N = 22
};

/* All but WAY_PLAIN and the controlled ones draft as many rows as there is room for, always. */
typedef struct MatrixWay {
    const char *name;
    GenerationSpeculation speculation;
    bool with_model; /* that drafts: the target itself, whose drafts are right where it is greedy */
    bool by_itself;  /* its layers in memory draft; where all are, half of them */
} MatrixWay;

extern const MatrixWay matrix_ways[WAY_N];

/* Of a generation of this engine. */
GenerationSpeculation matrix_way_speculation(const MatrixWay *way, const Engine *engine);

#endif
