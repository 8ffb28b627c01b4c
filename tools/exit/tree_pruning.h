// SPDX-License-Identifier: Apache-2.0
/* Decides which rows of a draft tree go on from a middle layer of their verification, by what a predictor says there of
 * the tree's edges. Rows that end only shorten what is accepted. Pure functions without a model or a clock. */
#ifndef COORDGEN_EXIT_TREE_PRUNING_H
#define COORDGEN_EXIT_TREE_PRUNING_H

#include "spec/tree/draft_growth.h"
#include "spec/sources/draft_tree.h"

/* The chance of an edge by logistic regression: the odds are e^offset times those of q and of s, each to its power. q
 * is the share of the parent's reach that the draft gives the edge, s the predictor's share among the candidates behind
 * the parent. { 1, 0, 0 }: the draft's share as it is. */
typedef struct PruningMix {
    float by_q, by_share; /* exponents of the odds, at least 0 */
    float offset;
} PruningMix;

/* Which rows stay. A row's score is the logarithm of the chance that the text reaches the row: the product of all edges
 * on the way. */
typedef struct PruningRule {
    float threshold; /* rows with a lower score end */
    /* Margin, at least 0, by which the chain of most probable children may be below the threshold; INFINITY: the whole
     * chain stays */
    float backbone;
    uint32_t rows_min; /* rows that stay in any case, the root included */
    uint32_t siblings; /* most probable children of the root that stay in any case */
} PruningRule;

/* Returns log(x / (1 - x)) for log x; finite for every x. */
double tree_pruning_log_odds(float log_share);
/* Returns the logarithm of an edge's chance, from log q and log s; at most 0. */
float tree_pruning_log_chance(PruningMix mix, float log_q, float log_share);
/* Scores all rows. log_shares f32[n_rows]: log s by rows, at most 0, ignored for row 0. scores f32[n_rows]: 0 for row
 * 0, and never above the parent's. */
void tree_pruning_scores(const DraftTree *tree, const float *log_shares, PruningMix mix, float *scores);
/* Fills rows[returned] with the rows that stay, rising, row 0 first. All rows: nothing ends. */
uint32_t tree_pruning(const DraftTree *tree, const float *scores, const PruningRule *rule, DraftCosts costs,
                      uint16_t rows[DRAFT_ROWS_MAX]);
/* Returns what a step saves that has `after` rows instead of `before` for the last `share` of its layers; 0: not
 * known. */
float tree_pruning_saves_ms(DraftCosts costs, uint32_t before, uint32_t after, float share);

#endif
