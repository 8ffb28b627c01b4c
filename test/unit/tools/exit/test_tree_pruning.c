// SPDX-License-Identifier: Apache-2.0
/* Scores are chances of the whole way. The rows that stay are those of a naive version: closed under parents, the
 * backbone as far as its margin goes, the root's first children, never fewer for a lower threshold, and rows that a
 * tile computes anyway. A tree that was cut is the one that would have been drafted. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "tools/exit/tree_pruning.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    ROUNDS = 2000
};

static const PruningMix mix = { 1, 0.3F, 0 };

static void fill_tree(DraftTree *tree, uint64_t *random) {
    const uint32_t n = (uint32_t)(test_random(random) % (DRAFT_NODES_MAX + 1));

    draft_tree_init(tree, 7);
    for (uint32_t i = 0; i < n; i++) {
        const int parent = (int)(test_random(random) % (i + 1)) - 1;
        const float before = parent < 0 ? 1 : tree->nodes[parent].reach;

        draft_tree_add(tree, &(DraftNode){ .token = 100 + i,
                                           .parent = (int16_t)parent,
                                           .depth = (uint8_t)(parent < 0 ? 1 : tree->nodes[parent].depth + 1),
                                           .reach = before * (float)(test_random(random) % 101) / 100 });
    }
    draft_tree_order(tree);
}

static void fill_shares(const DraftTree *tree, uint64_t *random, float *log_shares) {
    for (uint32_t row = 0; row < tree->n_rows; row++)
        log_shares[row] = -(float)(test_random(random) % 500) / 100;
}

static double bounded(double share) {
    return fmin(fmax(share, exp(-16)), exp(-1e-6));
}

static void test_tree_pruning_scores(void **state) {
    uint64_t random = 1;

    for (uint32_t round = 0; round < 100; round++) {
        float log_shares[DRAFT_ROWS_MAX], scores[DRAFT_ROWS_MAX];
        DraftTree tree;

        fill_tree(&tree, &random);
        fill_shares(&tree, &random, log_shares);
        tree_pruning_scores(&tree, log_shares, (PruningMix){ 0.75F, 0.5F, -0.25F }, scores);
        assert_true(scores[0] == 0);
        for (uint32_t row = 1; row < tree.n_rows; row++) {
            const DraftNode *node = &tree.nodes[tree.node_of[row]];
            const double before = node->parent < 0 ? 1 : (double)tree.nodes[node->parent].reach;
            const double q = bounded(before > 0 ? (double)node->reach / before : 0),
                         s = bounded(exp((double)log_shares[row]));
            const double odds = pow(q / (1 - q), 0.75) * sqrt(s / (1 - s)) * exp(-0.25);
            const double score = (double)scores[tree.parents[row]] + log(odds / (1 + odds));

            assert_true(fabs((double)scores[row] - score) < 1e-3 * fmax(1, fabs(score)));
        }
    }
}

/* The draft's share counts as it is where nothing else does; chances are never more than certain, and always finite. */
static void test_tree_pruning_chance(void **state) {
    const PruningMix plain = { 1, 0, 0 }, sure = { 1, 1, 3 };

    for (float q = 0.01F; q < 1; q += 0.01F)
        assert_true(fabsf(tree_pruning_log_chance(plain, logf(q), -3) - logf(q)) < 1e-4F * fabsf(logf(q)) + 1e-6F);
    assert_true(tree_pruning_log_chance(sure, 0, 0) <= 0 && tree_pruning_log_chance(sure, 0, 0) > -1e-6F);
    assert_true(isfinite(tree_pruning_log_chance(sure, -INFINITY, -INFINITY)));
    assert_true(isfinite(tree_pruning_log_chance(sure, NAN, 0)));
    assert_true(tree_pruning_log_chance(sure, -1, -1) > tree_pruning_log_chance(sure, -1, -2));
    assert_true(tree_pruning_log_chance(sure, -1, -1) > tree_pruning_log_chance(sure, -2, -1));
}

/* Whether a row, or one below it, has a score at the threshold. */
static bool leads_on(const DraftTree *tree, const float *scores, float threshold, uint32_t row) {
    if (scores[row] >= threshold)
        return true;
    for (uint32_t child = row + 1; child < tree->n_rows; child++)
        if (tree->parents[child] == (int)row && leads_on(tree, scores, threshold, child))
            return true;
    return false;
}

static bool is_backbone(const DraftTree *tree, uint32_t row) {
    for (; row; row--)
        if (tree->parents[row] != (int)row - 1)
            return false;
    return true;
}

static uint32_t place_among_siblings(const DraftTree *tree, uint32_t row) {
    uint32_t place = 0;

    for (uint32_t i = 1; i < row; i++)
        place += tree->parents[i] == tree->parents[row];
    return place;
}

static void test_tree_pruning_naive(void **state) {
    uint64_t random = 2;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        float log_shares[DRAFT_ROWS_MAX], scores[DRAFT_ROWS_MAX];
        const PruningRule rule = { .threshold = -(float)(test_random(&random) % 80) / 10,
                                   .backbone = round % 3 ? (float)(test_random(&random) % 60) / 10 : INFINITY,
                                   .siblings = (uint32_t)(test_random(&random) % 4) };
        uint16_t rows[DRAFT_ROWS_MAX];
        uint32_t n, at = 0;
        DraftTree tree;

        fill_tree(&tree, &random);
        fill_shares(&tree, &random, log_shares);
        tree_pruning_scores(&tree, log_shares, mix, scores);
        n = tree_pruning(&tree, scores, &rule, (DraftCosts){ 0 }, rows);
        for (uint32_t row = 0; row < tree.n_rows; row++) {
            const bool stays = !row || leads_on(&tree, scores, rule.threshold, row) ||
                               (is_backbone(&tree, row) && scores[row] + rule.backbone >= rule.threshold) ||
                               (tree.parents[row] == 0 && place_among_siblings(&tree, row) < rule.siblings);

            assert_int_equal(at < n && rows[at] == row, stays);
            at += stays;
        }
        assert_int_equal(at, n);
    }
}

/* Each keeps more than the one before: fewest rows, tiles and all. */
static void test_tree_pruning_monotone(void **state) {
    uint64_t random = 3;
    float ms[DRAFT_ROWS_MAX];

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 10 + (float)(i / 8);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        float log_shares[DRAFT_ROWS_MAX], scores[DRAFT_ROWS_MAX];
        const DraftCosts costs = round % 2 ? (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX } : (DraftCosts){ 0 };
        PruningRule rule = { .siblings = 2, .backbone = 2, .rows_min = 1 + (uint32_t)(test_random(&random) % 9) };
        uint64_t before = 1;
        DraftTree tree;

        fill_tree(&tree, &random);
        fill_shares(&tree, &random, log_shares);
        tree_pruning_scores(&tree, log_shares, mix, scores);
        for (rule.threshold = 0.5F; rule.threshold > -2000; rule.threshold -= 0.5F - rule.threshold / 16) {
            uint16_t rows[DRAFT_ROWS_MAX];
            const uint32_t n = tree_pruning(&tree, scores, &rule, costs, rows);
            uint64_t kept = 0;

            assert_true(n >= MIN(rule.rows_min, tree.n_rows));
            for (uint32_t i = 0; i < n; i++) {
                assert_true(!i || rows[i] > rows[i - 1]);
                assert_true(!i || kept >> tree.parents[rows[i]] & 1);
                kept |= UINT64_C(1) << rows[i];
            }
            assert_int_equal(kept & before, before);
            before = kept;
            for (uint32_t row = 0; row < tree.n_rows && is_backbone(&tree, row); row++)
                assert_true(kept >> row & 1 || scores[row] + rule.backbone < rule.threshold);
        }
        assert_int_equal(before, tree.n_rows == 64 ? UINT64_MAX : (UINT64_C(1) << tree.n_rows) - 1);
    }
}

/* 20 children of the root: a threshold that would leave 4 leaves the tile. */
static void test_tree_pruning_tiles(void **state) {
    float ms[DRAFT_ROWS_MAX], scores[DRAFT_ROWS_MAX] = { 0 };
    const PruningRule rule = { .threshold = -3.5F };
    uint16_t rows[DRAFT_ROWS_MAX];
    DraftCosts costs = { .ms = ms, .n_rows = DRAFT_ROWS_MAX };
    DraftTree tree;

    draft_tree_init(&tree, 1);
    for (uint32_t i = 0; i < 20; i++)
        draft_tree_add(&tree, &(DraftNode){ .token = i, .parent = DRAFT_ROOT, .depth = 1, .reach = 0.04F });
    draft_tree_order(&tree);
    for (uint32_t row = 1; row < tree.n_rows; row++)
        scores[row] = -(float)row;
    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 10 + 2 * (float)(i / 8);
    assert_int_equal(tree_pruning(&tree, scores, &rule, (DraftCosts){ 0 }, rows), 4);
    assert_int_equal(tree_pruning(&tree, scores, &rule, costs, rows), 8);
    assert_int_equal(rows[7], 7);
    assert_true(tree_pruning_saves_ms(costs, 21, 8, 0.5F) == 2);
    assert_true(tree_pruning_saves_ms(costs, 8, 4, 0.5F) == 0);
    assert_true(tree_pruning_saves_ms((DraftCosts){ .ms = ms, .n_rows = 20 }, 21, 8, 0.5F) == 0);
}

static void test_tree_pruning_cut(void **state) {
    uint64_t random = 4;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        float log_shares[DRAFT_ROWS_MAX], scores[DRAFT_ROWS_MAX];
        const PruningRule rule = { .threshold = -(float)(test_random(&random) % 60) / 10, .siblings = 1 };
        uint16_t rows[DRAFT_ROWS_MAX];
        DraftTree tree, before;
        uint32_t n;

        fill_tree(&tree, &random);
        fill_shares(&tree, &random, log_shares);
        before = tree;
        tree_pruning_scores(&tree, log_shares, mix, scores);
        n = tree_pruning(&tree, scores, &rule, (DraftCosts){ 0 }, rows);
        draft_tree_keep(&tree, rows, n);
        assert_int_equal(tree.n_rows, n);
        assert_int_equal(tree.n_nodes, n - 1);
        for (uint32_t i = 1; i < n; i++) {
            const DraftNode *node = &tree.nodes[tree.node_of[i]], *old = &before.nodes[before.node_of[rows[i]]];

            assert_int_equal(tree.tokens[i], before.tokens[rows[i]]);
            assert_int_equal(rows[tree.parents[i]], before.parents[rows[i]]);
            assert_int_equal(node->token, old->token);
            assert_true(node->reach == old->reach && node->depth == old->depth);
            assert_int_equal(tree.row_of[tree.node_of[i]], i);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_pruning_scores), cmocka_unit_test(test_tree_pruning_chance),
        cmocka_unit_test(test_tree_pruning_naive),  cmocka_unit_test(test_tree_pruning_monotone),
        cmocka_unit_test(test_tree_pruning_tiles),  cmocka_unit_test(test_tree_pruning_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
