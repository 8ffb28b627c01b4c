// SPDX-License-Identifier: Apache-2.0
/* Which rows of a draft tree go on from a middle layer of its verification, by what a predictor said there of its
 * edges. Whatever goes only shortens what is accepted. Pure functions: no model, no clock. */
#ifndef COORDGEN_SPEC_TREE_PRUNING_H
#define COORDGEN_SPEC_TREE_PRUNING_H

#include "spec/tree/draft_growth.h"
#include "spec/sources/draft_tree.h"

/* The chance of an edge, by logistic regression: its odds are e^offset times those of q and of s to these powers. q is
 * the share of its parent's reach that the draft gives it, s what the predictor gives it among the candidates behind
 * its parent. { 1, 0, 0 }: the draft's share as it is. */
typedef struct PruningMix {
    float by_q, by_share; /* 0 or more */
    float offset;
} PruningMix;

/* A row's score is the logarithm of the chance that the text comes so far: of all edges on the way to it. */
typedef struct PruningRule {
    float threshold;   /* of the score: rows below it go */
    float backbone;    /* 0 or more: the chain of most probable children stays so far below the threshold; INFINITY: all
                        * of it */
    uint32_t rows_min; /* that stay, the root among them */
    uint32_t siblings; /* behind the root, the most probable ones, that stay */
} PruningRule;

/* log(x / (1 - x)) of log x, finite for every x. */
double tree_pruning_log_odds(float log_share);
/* Of an edge, from log q and log s. Not above 0. */
float tree_pruning_log_chance(PruningMix mix, float log_q, float log_share);
/* log_shares f32[n_rows]: log s by rows, at most 0; of row 0 anything. scores f32[n_rows]; of row 0: 0; never above the
 * parent's. */
void tree_pruning_scores(const DraftTree *tree, const float *log_shares, PruningMix mix, float *scores);
/* rows[returned], rising, row 0 first: those that stay. All of them: nothing goes. */
uint32_t tree_pruning(const DraftTree *tree, const float *scores, const PruningRule *rule, DraftCosts costs,
                      uint16_t rows[DRAFT_ROWS_MAX]);
/* What a step saves that has `after` rows instead of `before` for the last `share` of its layers; 0: not known. */
float tree_pruning_saves_ms(DraftCosts costs, uint32_t before, uint32_t after, float share);
/* The tree as if only these rows (rising, closed under parents, row 0 first) had been drafted. */
void tree_pruning_cut(DraftTree *tree, const uint16_t *rows, uint32_t n);

#endif
