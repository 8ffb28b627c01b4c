// SPDX-License-Identifier: Apache-2.0
/* Pruning of a generation's trees within their verification: what the engine's early exit is asked, which rows go on,
 * and what that was worth. A part of engine/draft/drafting.h. */
#ifndef COORDGEN_ENGINE_DRAFT_PRUNING_H
#define COORDGEN_ENGINE_DRAFT_PRUNING_H

#include "engine/generation.h"
#include "spec/control/exit_control.h"
#include "spec/tree/draft_shadows.h"
#include "spec/tree/tree_pruning.h"

typedef struct Drafting Drafting;

/* Embedded; begins with draft_pruning_init(). */
typedef struct DraftPruning {
    ExitControl control;
    ExitChoice choice;  /* of the step */
    bool was_asked;     /* the predictor, in it */
    uint32_t n_drafted; /* rows of its tree as it was drafted; 0: nothing was pruned */
    uint32_t n_kept;
    uint16_t kept[DRAFT_ROWS_MAX];   /* [n_kept] of these rows */
    uint64_t masks[EXIT_THRESHOLDS]; /* in a trial: rows that each threshold would have kept, as bits */
    ExitTrial trial;
    DraftEdge edges[SHADOW_EDGES_MAX]; /* [exit.n] */
    uint32_t rows[SHADOW_EDGES_MAX], tokens[SHADOW_EDGES_MAX];
    float log_shares[SHADOW_EDGES_MAX];
    float row_shares[DRAFT_ROWS_MAX]; /* of them, those of the rows of the tree */
    EngineExit exit;
} DraftPruning;

void draft_pruning_init(DraftPruning *pruning);
/* What a generation prunes by, at that threshold. */
PruningRule draft_pruning_rule(float threshold);
/* Before the step, when its company is known: whether the span's rows are looked at. */
void draft_pruning_begin(Drafting *drafting, EngineSpan *span);
/* Whether a row of the tree has gone. */
bool draft_pruning_has_gone(const DraftPruning *pruning, uint32_t row);
/* Behind the step: the tree, its path and tops are as if what has gone had never been drafted. */
void draft_pruning_end(Drafting *drafting);
/* Rows with all layers that take as long as those of the step, once it has ended. */
uint32_t draft_pruning_rows_worth(const Drafting *drafting);
/* Tokens came out. */
void draft_pruning_learn(Drafting *drafting);

#endif
