// SPDX-License-Identifier: Apache-2.0
/* A draft model as a source of drafts. It keeps what the model has computed behind the text in this step, as a tree of
 * rows, and answers from that; whoever grows a draft tree says which rows are to be computed next. */
#ifndef COORDGEN_SPEC_MODEL_DRAFTER_H
#define COORDGEN_SPEC_MODEL_DRAFTER_H

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/sources/draft_model.h"

enum {
    MODEL_ROWS_MAX = 512, /* of a step, whatever the model could have */
    MODEL_NOWHERE = -1
};

extern const DrafterOps model_drafter_ops;

typedef struct ModelDrafter ModelDrafter;

/* The model outlives it. Thread: the model's. 0, -ENOMEM. */
int model_drafter_new(AccountTable *accounts, DraftModel model, ModelDrafter **drafterp);
void model_drafter_free(ModelDrafter *drafter);
DEFINE_CLEANUP(ModelDrafter, model_drafter_free)

/* Tokens of the text that following it would compute. */
size_t model_drafter_n_behind(const ModelDrafter *drafter);
/* Of those, as many as take ms at most as far as is known; *cost_ms gets what they take. */
size_t model_drafter_affords(const ModelDrafter *drafter, float ms, float *cost_msp);
/* Brings the model to the text as it was appended, or so many tokens nearer. 0: it is there, and the tree has no rows;
 * MODEL_DRAFTER_E_BEHIND; errors as DraftModelOps. */
enum {
    MODEL_DRAFTER_E_BEHIND = 2
};
int model_drafter_follow(ModelDrafter *drafter, size_t most);
/* Computes n rows more, numbered behind those that are there, in one pass; model_drafter_n_left() of them at most.
 * Errors as DraftModelOps; the rows are not there then. */
int model_drafter_expand(ModelDrafter *drafter, const DraftModelRow *rows, size_t n);

uint32_t model_drafter_n_rows(const ModelDrafter *drafter);
uint32_t model_drafter_n_left(const ModelDrafter *drafter);
/* Of a row that is there: what the model holds for likely behind it. Probabilities are within [0, 1]. */
const DraftModelTops *model_drafter_tops(const ModelDrafter *drafter, uint32_t row);
/* The row of that token behind a row (MODEL_NOWHERE: none is), or MODEL_NOWHERE. */
int model_drafter_child(const ModelDrafter *drafter, int row, uint32_t token);
/* Rows in one pass at most: twice as many as any pass had whose time is known, for what more would take is a guess. */
uint32_t model_drafter_pass_rows(const ModelDrafter *drafter);
/* What a pass of so many (1 at least) rows takes; what is not measured is told by the nearest that is, else by guess_ms
 * for one row. */
float model_drafter_cost_ms(const ModelDrafter *drafter, uint32_t n_rows, float guess_ms);
/* By the model's probability of a token: the bucket of DraftChoice. */
uint16_t model_drafter_bucket(float probability);

#endif
