// SPDX-License-Identifier: Apache-2.0
/* A draft model, a text, and a tree of rows that the model computes behind it, pass by pass. */
#ifndef COORDGEN_TEST_UNIT_DRAFT_WALK_H
#define COORDGEN_TEST_UNIT_DRAFT_WALK_H

#include "engine/engine.h"
#include "spec/sources/draft_model.h"

enum {
    WALK_TEXT_MAX = 400,
    WALK_ROWS_MAX = ENGINE_TREE_ROWS_MAX
};

typedef struct DraftWalk {
    DraftModel model; /* the test's */
    uint32_t text[WALK_TEXT_MAX];
    size_t n_text;
    size_t n_rows; /* computed rows; added ones lie behind them */
    DraftModelRow rows[WALK_ROWS_MAX];
    DraftModelTops tops[WALK_ROWS_MAX];
} DraftWalk;

/* Lets the model follow the text, without a tree; returns the model's answer. */
int walk_follow(DraftWalk *walk);
void walk_add(DraftWalk *walk, size_t at, int parent, uint32_t token);
/* Computes the n rows that were added; returns the model's answer. */
int walk_expand(DraftWalk *walk, size_t n);
/* Computes the root, then passes of up to `width` rows behind those of the last pass, the most probable ones of
 * each. */
void walk_grow(DraftWalk *walk, size_t width, size_t n_passes);
/* Lists the tokens from the root to the row; returns how many. */
size_t walk_way(const DraftWalk *walk, size_t row, uint32_t way[WALK_ROWS_MAX]);

#endif
