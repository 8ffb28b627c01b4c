// SPDX-License-Identifier: Apache-2.0
/* Grows a draft tree of all sources where one of them is a model, whose every look ahead takes time: in rounds, as long
 * as what the model is expected to bring is worth its time ("gain-cost tree", Lever 4.2). */
#ifndef COORDGEN_SPEC_DRAFT_ROUNDS_H
#define COORDGEN_SPEC_DRAFT_ROUNDS_H

#include "spec/sources/model_drafter.h"
#include "spec/tree/draft_growth.h"

/* What drafting with the model may take in a step. */
typedef struct ModelBudget {
    float ms;                 /* as far as passes are measured */
    float step_ms;            /* that and the rows of the tree together, above a step with one row; 0: no limit */
    bool is_free;             /* passes cost nothing, and ms is no limit (tests, benchmarks) */
    bool (*stops)(void *arg); /* asked before every pass: others wait, or nobody does any more. NULL: never */
    void *stops_arg;
} ModelBudget;

/* What computing a row has brought: reach that its children have in trees afterwards, above what they had before, as a
 * share of the reach that nothing of before accounted for. By how the row came into question; old rows count less. */
enum {
    DRAFT_VALUE_CLASSES = 4 /* the root, then by chance behind the parent */
};
typedef struct DraftValue {
    float brought[DRAFT_VALUE_CLASSES], open[DRAFT_VALUE_CLASSES]; /* sums */
    float rate;                                                    /* tokens a ms of the last trees; 0: none yet */
} DraftValue;

/* A step's. */
typedef struct DraftRoundsReport {
    uint32_t n_passes, n_rows; /* of the model */
    float spent_ms;            /* as measured before, catching up with the text among it */
    uint32_t n_kept_without;   /* nodes of the tree that there would be without the model */
} DraftRoundsReport;

typedef struct DraftRounds {
    DraftSources sources; /* drafters[SPECULATION_MODEL] is the model's, and off where it is off */
    ModelDrafter *model;
    DraftValue *value; /* read, and taught */
    DraftLimits limits;
    DraftCosts costs; /* of a step without drafting */
    ModelBudget budget;
    bool chain; /* no siblings */
} DraftRounds;

void draft_value_init(DraftValue *value);
/* The tree; without: what it would be without the model. 0; errors as DraftModelOps: no more rows are to be asked for
 * in this step, and the trees are those without it. */
int draft_rounds(DraftTree *tree, DraftTree *without, uint32_t root_token, const DraftRounds *rounds,
                 DraftRoundsReport *report);

#endif
