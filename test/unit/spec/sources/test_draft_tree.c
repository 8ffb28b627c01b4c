// SPDX-License-Identifier: Apache-2.0
/* Draft tree, on random trees with many ties: the order of its rows against a recursive one, and cutting to rows. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "spec/sources/draft_tree.h"

enum {
    N_TREES = 500
};

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static void random_tree(DraftTree *tree, uint32_t n) {
    draft_tree_init(tree, 1000);
    for (uint32_t i = 0; i < n; i++) {
        int parent = (int)draw(i + 1) - 1;
        float above = parent < 0 ? 1 : tree->nodes[parent].reach;
        uint8_t depth = (uint8_t)(parent < 0 ? 1 : tree->nodes[parent].depth + 1);

        draft_tree_add(tree, &(DraftNode){ .token = i,
                                           .reach = above * (float)(1 + draw(4)) / 4,
                                           .depth = depth,
                                           .parent = (int16_t)parent });
    }
    draft_tree_order(tree);
}

/* Lists the rows below a node as they should be, by sorting its children. */
static void visit(const DraftTree *tree, int parent, uint32_t parent_row, uint32_t *rowp) {
    uint8_t seen[DRAFT_NODES_MAX] = { 0 };

    for (;;) {
        int best = -1;
        uint32_t row;

        for (int i = 0; i < (int)tree->n_nodes; i++)
            if (tree->nodes[i].parent == parent && !seen[i] &&
                (best < 0 || tree->nodes[i].reach > tree->nodes[best].reach))
                best = i;
        if (best < 0)
            return;
        seen[best] = 1;
        row = (*rowp)++;
        assert_int_equal(tree->node_of[row], best);
        assert_int_equal(tree->row_of[best], row);
        assert_int_equal(tree->tokens[row], tree->nodes[best].token);
        assert_int_equal(tree->parents[row], parent_row);
        assert_int_equal(draft_tree_child(tree, parent_row, tree->tokens[row]), row);
        visit(tree, best, row, rowp);
    }
}

/* The rows begin with the chain of most probable children. */
static void check_chain(const DraftTree *tree) {
    int at = DRAFT_ROOT;

    for (uint32_t row = 1;; row++) {
        int best = -1;

        for (int i = 0; i < (int)tree->n_nodes; i++)
            if (tree->nodes[i].parent == at && (best < 0 || tree->nodes[i].reach > tree->nodes[best].reach))
                best = i;
        if (best < 0)
            return;
        assert_int_equal(tree->node_of[row], best);
        assert_int_equal(tree->parents[row], row - 1);
        at = best;
    }
}

static void test_draft_tree_order(void **state) {
    for (int i = 0; i < N_TREES; i++) {
        DraftTree tree;
        uint32_t n = draw(DRAFT_NODES_MAX + 1), row = 1;
        double gain = 1;

        random_tree(&tree, n);
        assert_int_equal(tree.n_rows, n + 1);
        assert_int_equal(tree.tokens[0], 1000);
        assert_int_equal(tree.parents[0], -1);
        visit(&tree, DRAFT_ROOT, 0, &row);
        assert_int_equal(row, n + 1);
        check_chain(&tree);
        for (uint32_t j = 0; j < n; j++)
            gain += (double)tree.nodes[j].reach;
        assert_true(draft_tree_gain(&tree, n) == gain);
        assert_int_equal(draft_tree_child(&tree, 0, 999), -1);
    }
}

/* A tree cut to some rows has these rows with their parents and nodes, in the order that they had. */
static void test_draft_tree_keep(void **state) {
    for (int i = 0; i < N_TREES; i++) {
        DraftTree before, tree;
        uint16_t rows[DRAFT_ROWS_MAX] = { 0 };
        bool is_kept[DRAFT_ROWS_MAX] = { true };
        uint32_t n = 1, row = 1;

        random_tree(&before, draw(DRAFT_NODES_MAX + 1));
        tree = before;
        for (uint32_t j = 1; j < before.n_rows; j++) {
            is_kept[j] = is_kept[before.parents[j]] && draw(8);
            if (is_kept[j])
                rows[n++] = (uint16_t)j;
        }
        draft_tree_keep(&tree, rows, n);
        assert_int_equal(tree.n_rows, n);
        assert_int_equal(tree.n_nodes, n - 1);
        assert_int_equal(tree.tokens[0], 1000);
        visit(&tree, DRAFT_ROOT, 0, &row);
        for (uint32_t j = 1; j < n; j++) {
            const DraftNode *node = &tree.nodes[tree.node_of[j]], *old = &before.nodes[before.node_of[rows[j]]];

            assert_int_equal(tree.tokens[j], before.tokens[rows[j]]);
            assert_int_equal(rows[tree.parents[j]], before.parents[rows[j]]);
            assert_true(node->reach == old->reach && node->depth == old->depth);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_tree_order),
        cmocka_unit_test(test_draft_tree_keep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
