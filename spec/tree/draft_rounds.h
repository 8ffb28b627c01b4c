// SPDX-License-Identifier: Apache-2.0
/* Grows a draft tree of all sources where one of them is a model whose passes take time. Rounds follow each other as
 * long as what the model is expected to bring is worth its time ("gain-cost tree", Lever 4.2). */
#ifndef COORDGEN_SPEC_DRAFT_ROUNDS_H
#define COORDGEN_SPEC_DRAFT_ROUNDS_H

#include "spec/sources/model_drafter.h"
#include "spec/tree/spec_lab.h"
#include "spec/tree/draft_growth.h"

/* What drafting with the model may take in a step. */
typedef struct ModelBudget {
    float ms;                 /* time of all passes; passes that nobody measured do not count */
    float step_ms;            /* time of passes and tree rows together, above a step with one row; 0: no limit */
    bool (*stops)(void *arg); /* asked before every pass: whether the step must end. NULL: never */
    void *stops_arg;
} ModelBudget;

/* What computing rows has brought: reach that a row's children gained in the tree, as a share of the reach that no node
 * accounted for before. Classes are by how likely the row was; old rows count less. */
enum {
    DRAFT_VALUE_CLASSES = 4 /* the root, then classes by the chance behind the parent */
};
typedef struct DraftValue {
    float brought[DRAFT_VALUE_CLASSES], open[DRAFT_VALUE_CLASSES]; /* sums */
    float rate;                                                    /* tokens per ms of the last trees; 0: none yet */
} DraftValue;

/* What the model did in a step. */
typedef struct DraftRoundsReport {
    uint32_t n_passes, n_rows; /* passes and rows of the model */
    float spent_ms;            /* as measured before; reading the text is included */
    uint32_t n_kept_without;   /* nodes of the tree without the model */
} DraftRoundsReport;

typedef struct DraftRounds {
    DraftSources sources; /* drafters[SPECULATION_MODEL] belongs to the model, and is off where the model is */
    ModelDrafter *model;
    DraftValue *value; /* read, and taught by the passes */
    DraftLimits limits;
    DraftCosts costs; /* costs of a step without the model's time */
    ModelBudget budget;
    bool chain;         /* no siblings */
    const SpecLab *lab; /* NULL in the product */
} DraftRounds;

/* Another rule by which trees grow from a draft model. The speculator makes one `self` for each generation. */
typedef struct DraftPolicyOps {
    const char *name;
    void *(*begin)(void); /* NULL: no memory */
    void (*end)(void *self);
    /* Grows the tree; sources and value of `rounds` are not used. 0; errors as DraftModelOps: the tree is the root
     * alone, and the model's rows are not to be relied on. */
    int (*grow)(void *self, DraftTree *tree, uint32_t root_token, const DraftRounds *rounds, DraftRoundsReport *report);
    /* Learns from a verification before the text goes on: rows that the target took, and the token behind them. */
    void (*learn)(void *self, const ModelDrafter *model, const DraftTree *tree, const uint32_t *accepted,
                  uint32_t n_accepted, uint32_t next);
} DraftPolicyOps;

void draft_value_init(DraftValue *value);
/* Time that the model has taken of the step, and that a pass of n_rows would take, in ms; 0 in a lab where passes are
 * free. A pass that nobody measured is guessed from the target's plain step. */
float draft_rounds_spent_ms(const DraftRounds *rounds, const DraftRoundsReport *report);
float draft_rounds_pass_ms(const DraftRounds *rounds, uint32_t n_rows);
/* Whether the budget has time for a pass of n_rows more. */
bool draft_rounds_affords(const DraftRounds *rounds, const DraftRoundsReport *report, uint32_t n_rows);
/* Whether the step must end, as ModelBudget.stops says. */
bool draft_rounds_stops(const DraftRounds *rounds);
/* Computes n rows in one pass, which the report counts. Errors as DraftModelOps. */
int draft_rounds_compute(const DraftRounds *rounds, DraftRoundsReport *report, const DraftModelRow *rows, uint32_t n);
/* Grows the tree; `without` becomes the tree without the model. 0; errors as DraftModelOps: both trees are those
 * without the model, and no more rows may be asked for in this step. */
int draft_rounds(DraftTree *tree, DraftTree *without, uint32_t root_token, const DraftRounds *rounds,
                 DraftRoundsReport *report);

#endif
