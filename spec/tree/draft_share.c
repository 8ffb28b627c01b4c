// SPDX-License-Identifier: Apache-2.0
#include "spec/tree/draft_share.h"

#include <assert.h>

void draft_share_chain(DraftTree *tree) {
    uint16_t rows[DRAFT_ROWS_MAX] = { 0 };
    uint32_t n = 1;

    for (; n < tree->n_rows && tree->parents[n] == (int)n - 1; n++)
        rows[n] = (uint16_t)n;
    draft_tree_keep(tree, rows, n);
}

/* Returns the tree whose next node is worth most, where the nodes before `at` are taken; n: no tree has a next node. */
static size_t best_next(DraftTree *const *trees, const float *weights, size_t n, const uint32_t *at) {
    size_t best = n;
    float most = 0;

    for (size_t i = 0; i < n; i++) {
        const float value = at[i] < trees[i]->n_nodes ? weights[i] * trees[i]->nodes[at[i]].reach : -1;

        if (value > most) {
            most = value;
            best = i;
        }
    }
    return best;
}

/**
 * draft_share_cut() - choose nodes for all trees of a step together
 *
 * Nodes of a tree lie by falling reach. Merging gives the best nodes of all trees, and any number of them is closed
 * under parents. The number with the most tokens per time is taken, the smallest of several; draft_growth() has the
 * same rule for one tree.
 */
void draft_share_cut(DraftTree *const *trees, const float *weights, size_t n, uint32_t nodes_max, DraftCosts costs) {
    uint32_t at[DRAFT_SHARE_MAX] = { 0 }, best[DRAFT_SHARE_MAX] = { 0 };
    double gain = 0, best_gain, best_ms = (double)(costs.ms[0] + costs.more_ms);

    assert(n <= DRAFT_SHARE_MAX && costs.n_rows);
    for (size_t i = 0; i < n; i++)
        gain += (double)weights[i];
    best_gain = gain;
    for (uint32_t n_nodes = 1; n_nodes <= nodes_max && n_nodes < costs.n_rows; n_nodes++) {
        const double ms = (double)(costs.ms[n_nodes] + costs.more_ms);
        const size_t next = best_next(trees, weights, n, at);

        if (next == n)
            break;
        gain += (double)(weights[next] * trees[next]->nodes[at[next]++].reach);
        if (gain * best_ms <= best_gain * ms)
            continue;
        best_gain = gain;
        best_ms = ms;
        for (size_t i = 0; i < n; i++)
            best[i] = at[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (best[i] == trees[i]->n_nodes)
            continue;
        trees[i]->n_nodes = best[i];
        draft_tree_order(trees[i]);
    }
}
