// SPDX-License-Identifier: Apache-2.0
/* Small models for trees: an engine with a text behind which trees may stand. */
#ifndef COORDGEN_TEST_UNIT_TREE_MODEL_H
#define COORDGEN_TEST_UNIT_TREE_MODEL_H

#include "test/unit/import_fixture.h"
#include "test/unit/tree_case.h"

enum {
    TREE_MODEL_CHUNK = 128, /* two groups of rows */
    TREE_MODEL_CAPACITY = 400,
    TREE_MODEL_BASE = 258,
    TREE_MODEL_WINDOW = 40, /* of gemma3: trees reach past it */
    TREE_MODEL_BEHIND = 3,  /* tokens that are decoded behind a tree */
};

typedef struct TreeModel {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    Sequence *base; /* TREE_MODEL_BASE positions of text 1 */
} TreeModel;

ModelMaker tree_model_maker(const char *arch);
const char *tree_model_package(ImportFixture *fixture, const char *arch, double bits, bool static_activations);
void tree_model_init(TreeModel *model, const char *path, EngineDevice device, Isa isa, unsigned int threads);
/* Nothing may be left on any account. */
void tree_model_deinit(TreeModel *model);
/* A sequence that begins with the first positions of the base. */
Sequence *tree_model_fork(TreeModel *model, size_t n_tokens);
/* A tree alone in its step, and what is decoded behind it; both sequences are then as before. */
void tree_case_check_alone(TreeCase *tree, Sequence *sequence, Sequence *plain, const char *what);

#endif
