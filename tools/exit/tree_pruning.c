// SPDX-License-Identifier: Apache-2.0
#include "tools/exit/tree_pruning.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/min_max.h"

static const float least_log = -16;    /* lowest share: even a reach of 0 has a logarithm, */
static const float most_log = -1e-6F;  /* and a share of 1 has odds */
static const float same_time = 1.002F; /* row counts whose times differ by less belong to one tile */

static float edge_share(const DraftTree *tree, uint32_t row) {
    const DraftNode *node = &tree->nodes[tree->node_of[row]];
    const float before = node->parent == DRAFT_ROOT ? 1 : tree->nodes[node->parent].reach;

    return before > 0 ? node->reach / before : 0;
}

double tree_pruning_log_odds(float log_share) {
    const double x = (double)(!(log_share > least_log) ? least_log : MIN(most_log, log_share));

    return x - log(-expm1(x));
}

float tree_pruning_log_chance(PruningMix mix, float log_q, float log_share) {
    const double odds =
        (double)mix.by_q * tree_pruning_log_odds(log_q) + (double)mix.by_share * tree_pruning_log_odds(log_share);

    return (float)-log1p(exp(-odds - (double)mix.offset));
}

void tree_pruning_scores(const DraftTree *tree, const float *log_shares, PruningMix mix, float *scores) {
    scores[0] = 0;
    for (uint32_t row = 1; row < tree->n_rows; row++)
        scores[row] =
            scores[tree->parents[row]] + tree_pruning_log_chance(mix, logf(edge_share(tree, row)), log_shares[row]);
}

/* Adjusts the scores to the rule: the backbone's are raised by its margin, and rows that stay in any case have the best
 * score. */
static void rank_rows(const DraftTree *tree, const float *scores, const PruningRule *rule, float *ranks) {
    uint32_t n_siblings = 0, chain_end = 0;

    for (uint32_t row = 1; row < tree->n_rows; row++) {
        const bool is_chain = chain_end == row - 1 && tree->parents[row] == (int)row - 1;

        chain_end += is_chain;
        n_siblings += tree->parents[row] == 0;
        ranks[row] = tree->parents[row] == 0 && n_siblings <= rule->siblings ? INFINITY
                     : is_chain                                              ? scores[row] + rule->backbone
                                                                             : scores[row];
    }
}

/* Lists the rows except row 0 by falling score; of equal ones the earlier row first. */
static void order_rows(const DraftTree *tree, const float *scores, uint16_t *order) {
    for (uint32_t row = 1; row < tree->n_rows; row++) {
        uint32_t at = row - 1;

        for (; at && scores[order[at - 1]] < scores[row]; at--)
            order[at] = order[at - 1];
        order[at] = (uint16_t)row;
    }
}

/* Keeps a row, and the rows above it that are not kept yet. */
static uint32_t n_missing(const DraftTree *tree, const bool *is_kept, uint32_t row) {
    uint32_t n = 0;

    for (int at = (int)row; !is_kept[at]; at = tree->parents[at])
        n++;
    return n;
}

static void keep_way(const DraftTree *tree, bool *is_kept, uint32_t row) {
    for (int at = (int)row; !is_kept[at]; at = tree->parents[at])
        is_kept[at] = true;
}

/* Returns the largest number of rows that takes no longer than n. */
static uint32_t rows_of_time(DraftCosts costs, uint32_t n, uint32_t most) {
    if (n > costs.n_rows)
        return n;
    most = MIN(most, costs.n_rows);
    for (uint32_t more = n + 1; more <= most && costs.ms[more - 1] <= same_time * costs.ms[n - 1]; more++)
        n = more;
    return n;
}

/**
 * tree_pruning() - choose the rows that stay
 * @scores: f32[n_rows], tree_pruning_scores()
 * @costs:  times of a step by its rows; without any, no row is free
 *
 * Rows are taken by falling score, each with the rows above it: those at the threshold or above, more if rows_min asks
 * for them, and more while the step takes no longer for them, because a tile computes them anyway. A lower threshold
 * keeps the same rows and possibly more.
 */
uint32_t tree_pruning(const DraftTree *tree, const float *scores, const PruningRule *rule, DraftCosts costs,
                      uint16_t rows[DRAFT_ROWS_MAX]) {
    bool is_kept[DRAFT_ROWS_MAX] = { true };
    float ranks[DRAFT_ROWS_MAX];
    uint16_t order[DRAFT_ROWS_MAX];
    uint32_t n = 1, at = 0, most, n_rows = 0;

    rank_rows(tree, scores, rule, ranks);
    order_rows(tree, ranks, order);
    for (; at + 1 < tree->n_rows && (ranks[order[at]] >= rule->threshold || n < rule->rows_min); at++) {
        n += n_missing(tree, is_kept, order[at]);
        keep_way(tree, is_kept, order[at]);
    }
    most = rows_of_time(costs, n, tree->n_rows);
    for (; at + 1 < tree->n_rows && n + n_missing(tree, is_kept, order[at]) <= most; at++) {
        n += n_missing(tree, is_kept, order[at]);
        keep_way(tree, is_kept, order[at]);
    }
    for (uint32_t row = 0; row < tree->n_rows; row++)
        if (is_kept[row])
            rows[n_rows++] = (uint16_t)row;
    assert(n_rows == n);
    return n_rows;
}

float tree_pruning_saves_ms(DraftCosts costs, uint32_t before, uint32_t after, float share) {
    assert(after >= 1 && after <= before);
    if (before > costs.n_rows)
        return 0;
    return share * (costs.ms[before - 1] - costs.ms[after - 1]);
}
