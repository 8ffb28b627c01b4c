// SPDX-License-Identifier: Apache-2.0
/* A draft model as a source of drafts. The drafter keeps what the model has computed behind the text in this step, as a
 * tree of rows, and answers from it. Whoever grows a draft tree decides which rows are computed next. */
#ifndef COORDGEN_SPEC_MODEL_DRAFTER_H
#define COORDGEN_SPEC_MODEL_DRAFTER_H

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/sources/draft_model.h"

enum {
    MODEL_ROWS_MAX = 512, /* most rows of a step, whatever the model could have */
    MODEL_NOWHERE = -1
};

extern const DrafterOps model_drafter_ops;

typedef struct ModelDrafter ModelDrafter;

/* Makes the drafter; the model outlives it. Thread: the model's. 0, -ENOMEM. */
int model_drafter_new(AccountTable *accounts, DraftModel model, ModelDrafter **drafterp);
void model_drafter_free(ModelDrafter *drafter);
DEFINE_CLEANUP(ModelDrafter, model_drafter_free)

/* Returns the tokens of the text that the model would have to read. */
size_t model_drafter_n_behind(const ModelDrafter *drafter);
/* Returns how many of these tokens take at most ms, as far as is known; *cost_msp becomes their time. */
size_t model_drafter_affords(const ModelDrafter *drafter, float ms, float *cost_msp);
/* Lets the model read at most that many tokens of the text. 0: the model has read all, and the tree has no rows;
 * MODEL_DRAFTER_E_BEHIND: it has not; errors as DraftModelOps. */
enum {
    MODEL_DRAFTER_E_BEHIND = 2
};
int model_drafter_follow(ModelDrafter *drafter, size_t most);
/* Computes n rows in one pass, numbered on from those that are there, at most model_drafter_n_left(). Errors as
 * DraftModelOps: the rows do not exist then. */
int model_drafter_expand(ModelDrafter *drafter, const DraftModelRow *rows, size_t n);

uint32_t model_drafter_n_rows(const ModelDrafter *drafter);
uint32_t model_drafter_n_left(const ModelDrafter *drafter);
/* Returns the model's likely tokens behind a computed row; probabilities are within [0, 1]. */
const DraftModelTops *model_drafter_tops(const ModelDrafter *drafter, uint32_t row);
/* Returns the row of that token behind a row (MODEL_NOWHERE: no row), or MODEL_NOWHERE. */
int model_drafter_child(const ModelDrafter *drafter, int row, uint32_t token);
/* Returns the most rows of one pass: twice the most whose time is known, because the time of more is a guess. */
uint32_t model_drafter_pass_rows(const ModelDrafter *drafter);
/* Returns the ms of a pass of n_rows (at least 1). An unmeasured pass is estimated from the nearest measured one, else
 * from guess_ms for one row. */
float model_drafter_cost_ms(const ModelDrafter *drafter, uint32_t n_rows, float guess_ms);
/* Returns the bucket of DraftChoice for a probability of the model. */
uint16_t model_drafter_bucket(float probability);

#endif
