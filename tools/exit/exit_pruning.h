// SPDX-License-Identifier: Apache-2.0
/* Pruning of a generation's trees within their verification: what the early exit is asked, which rows go on, and what
 * that was worth. A part of engine/draft/drafting.h. */
#ifndef COORDGEN_ENGINE_DRAFT_PRUNING_H
#define COORDGEN_ENGINE_DRAFT_PRUNING_H

#include "engine/draft/draft_options.h"
#include "engine/step/early_exit.h"
#include "engine/step/engine_step.h"
#include "spec/control/exit_control.h"
#include "spec/control/speculation_control.h"
#include "spec/tree/draft_shadows.h"
#include "spec/tree/tree_pruning.h"

/* The tree of a generation's step, and what its verification gave. */
typedef struct DraftStep {
    DraftTree tree;                  /* the root alone: a step without drafts */
    StepCompany company;             /* rows of others in the step */
    uint16_t path[DRAFT_ROWS_MAX];   /* [n_path] rows of the tree where the text goes, the root first */
    uint32_t picked[DRAFT_ROWS_MAX]; /* [n_path] the token behind each row of the path */
    uint32_t n_path;
    uint32_t n_emitted;              /* picked tokens that became output */
    bool has_ended;                  /* behind the path comes a token that no row has */
    EngineTops tops[DRAFT_ROWS_MAX]; /* of each row; empty where nobody wants them */
} DraftStep;

/* Embedded; begins with draft_pruning_init(). */
typedef struct DraftPruning {
    Engine *engine;
    const GenerationSpeculation *options;
    Speculator *speculator;
    DraftStep *step;
    DraftReport *report;
    ExitControl control;
    DraftCosts costs;   /* of the step */
    ExitChoice choice;  /* of the step */
    bool was_asked;     /* the predictor was asked in the step */
    uint32_t n_drafted; /* rows of the tree before pruning; 0: nothing was pruned */
    uint32_t n_kept;
    uint16_t kept[DRAFT_ROWS_MAX];   /* [n_kept] rows that stayed, as numbered before pruning */
    uint64_t masks[EXIT_THRESHOLDS]; /* in a trial: rows that each threshold would have kept, as bits */
    ExitTrial trial;
    DraftEdge edges[SHADOW_EDGES_MAX]; /* [exit.n] */
    uint32_t rows[SHADOW_EDGES_MAX], tokens[SHADOW_EDGES_MAX];
    float log_shares[SHADOW_EDGES_MAX];
    float row_shares[DRAFT_ROWS_MAX]; /* log shares of the rows of the tree */
    EngineExit exit;
} DraftPruning;

/* All that the arguments point to outlives the pruning. */
void draft_pruning_init(DraftPruning *pruning, Engine *engine, const GenerationSpeculation *options,
                        Speculator *speculator, DraftStep *step, DraftReport *report);
/* Returns what a generation prunes by, at that threshold. */
PruningRule draft_pruning_rule(float threshold);
/* Decides whether the early exit looks at the span's rows. Before the step, when its company is known; costs: of steps
 * in that company. */
void draft_pruning_begin(DraftPruning *pruning, EngineSpan *span, DraftCosts costs);
/* Returns whether a row of the tree was pruned. */
bool draft_pruning_has_gone(const DraftPruning *pruning, uint32_t row);
/* Returns how many rows were pruned in the step. */
uint32_t draft_pruning_n_gone(const DraftPruning *pruning);
/* Removes pruned rows from the tree, its path and tops, as if they had never been drafted. After the step. */
void draft_pruning_end(DraftPruning *pruning);
/* Returns how many rows with all layers take as long as those of the step, once it has ended. */
uint32_t draft_pruning_rows_worth(const DraftPruning *pruning);
/* Tells the control what the step gave; token_ms: average duration for a token of the generation, 0: not known. */
void draft_pruning_learn(DraftPruning *pruning, float token_ms);

#endif
