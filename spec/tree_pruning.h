// SPDX-License-Identifier: Apache-2.0
/* Which rows of a draft tree go on from a middle layer of its verification, by what a predictor said there of its
 * edges. Whatever goes only shortens what is accepted. Pure functions: no model, no clock. */
#ifndef COORDGEN_SPEC_TREE_PRUNING_H
#define COORDGEN_SPEC_TREE_PRUNING_H

#include "spec/draft_growth.h"
#include "spec/draft_tree.h"

/* The score of an edge is log q + weight log s: q is the share of its parent's reach that the draft gives it, s what
 * the predictor gives it among the candidates behind its parent. */
typedef struct PruningRule {
    float weight;      /* 0 or more */
    float threshold;   /* of the score: edges below it go */
    uint32_t rows_min; /* that stay, the root among them */
    uint32_t siblings; /* behind the root, the most probable ones, that stay */
} PruningRule;

/* log_shares f32[n_rows]: log s by rows, at most 0; of row 0 anything. scores f32[n_rows]; of row 0: 0. */
void tree_pruning_scores(const DraftTree *tree, const float *log_shares, float weight, float *scores);
/* rows[returned], rising, row 0 first: those that stay. All of them: nothing goes. */
uint32_t tree_pruning(const DraftTree *tree, const float *scores, const PruningRule *rule, DraftCosts costs,
                      uint16_t rows[DRAFT_ROWS_MAX]);
/* What a step saves that has `after` rows instead of `before` for the last `share` of its layers; 0: not known. */
float tree_pruning_saves_ms(DraftCosts costs, uint32_t before, uint32_t after, float share);
/* The tree as if only these rows (rising, closed under parents, row 0 first) had been drafted. */
void tree_pruning_cut(DraftTree *tree, const uint16_t *rows, uint32_t n);

#endif
