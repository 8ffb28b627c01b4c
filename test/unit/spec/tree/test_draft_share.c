// SPDX-License-Identifier: Apache-2.0
/* Several trees of a step: the choice of nodes is compared with every possible number of the best nodes. Also
 * chains. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "spec/tree/draft_share.h"

enum {
    N_ROUNDS = 400,
    N_TREES = 5
};

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

/* Nodes by falling reach, as draft_growth() adds them. */
static void random_tree(DraftTree *tree, uint32_t n) {
    float most = 1;

    draft_tree_init(tree, 1000);
    for (uint32_t i = 0; i < n; i++) {
        int parent = (int)draw(i + 1) - 1;

        most *= 0.7F + (float)draw(30) / 100;
        draft_tree_add(tree, &(DraftNode){ .token = i,
                                           .reach = most,
                                           .depth = (uint8_t)(parent < 0 ? 1 : tree->nodes[parent].depth + 1),
                                           .parent = (int16_t)parent });
    }
    draft_tree_order(tree);
}

typedef struct Value {
    float value;
    uint32_t tree;
} Value;

static int falling(const void *a, const void *b) {
    const Value *x = a, *y = b;

    return x->value > y->value ? -1 : x->value < y->value ? 1 : (int)x->tree - (int)y->tree;
}

/* Finds how many nodes of each tree the best choice has. */
static void best_choice(DraftTree *const *trees, const float *weights, uint32_t n, uint32_t nodes_max, DraftCosts costs,
                        uint32_t *chosen) {
    static Value values[N_TREES * DRAFT_NODES_MAX];
    uint32_t n_values = 0, best = 0;
    double gain = 0, most;

    for (uint32_t i = 0; i < n; i++) {
        gain += (double)weights[i];
        for (uint32_t j = 0; j < trees[i]->n_nodes; j++)
            values[n_values++] = (Value){ weights[i] * trees[i]->nodes[j].reach, i };
        chosen[i] = 0;
    }
    qsort(values, n_values, sizeof(*values), falling);
    most = gain / (double)(costs.ms[0] + costs.more_ms);
    for (uint32_t i = 0; i < n_values && i < nodes_max && i + 1 < costs.n_rows; i++) {
        gain += (double)values[i].value;
        if (gain / (double)(costs.ms[i + 1] + costs.more_ms) > most * (1 + 1e-9)) {
            most = gain / (double)(costs.ms[i + 1] + costs.more_ms);
            best = i + 1;
        }
    }
    for (uint32_t i = 0; i < best; i++)
        chosen[values[i].tree]++;
}

static void test_draft_share_cut(void **state) {
    uint32_t n_cut = 0, n_whole = 0;

    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        DraftTree trees[N_TREES], *places[N_TREES];
        float ms[DRAFT_ROWS_MAX], weights[N_TREES], at = 10;
        const uint32_t n = 1 + draw(N_TREES), nodes_max = 1 + draw(100);
        DraftCosts costs = { .ms = ms, .n_rows = 2 + draw(DRAFT_ROWS_MAX - 1), .more_ms = (float)(draw(2) * 30) };
        uint32_t chosen[N_TREES], in_all = 0;

        for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++) {
            at += draw(8) ? 0.05F : (float)draw(10);
            ms[i] = at;
        }
        for (uint32_t i = 0; i < n; i++) {
            random_tree(&trees[i], draw(DRAFT_ROWS_MAX));
            places[i] = &trees[i];
            weights[i] = (float)(1u << draw(3));
        }
        best_choice(places, weights, n, nodes_max, costs, chosen);
        for (uint32_t i = 0; i < n; i++) {
            n_cut += chosen[i] < trees[i].n_nodes;
            n_whole += chosen[i] && chosen[i] == trees[i].n_nodes;
        }
        draft_share_cut(places, weights, n, nodes_max, costs);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(trees[i].n_nodes, chosen[i]);
            assert_int_equal(trees[i].n_rows, chosen[i] + 1);
            in_all += chosen[i];
        }
        assert_true(in_all <= nodes_max && in_all < costs.n_rows);
    }
    assert_true(n_cut > 50 && n_whole > 50);
}

static void test_draft_share_chain(void **state) {
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        DraftTree tree, chain;
        uint32_t at = 0;

        random_tree(&tree, draw(DRAFT_ROWS_MAX));
        chain = tree;
        draft_share_chain(&chain);
        for (uint32_t row = 1; row < tree.n_rows && tree.parents[row] == (int)at; row++) {
            assert_int_equal(chain.tokens[row], tree.tokens[row]);
            assert_int_equal(chain.parents[row], row - 1);
            assert_true(chain.nodes[chain.node_of[row]].reach == tree.nodes[tree.node_of[row]].reach);
            at = row;
        }
        assert_int_equal(chain.n_rows, at + 1);
        assert_int_equal(chain.n_nodes, at);
        assert_int_equal(chain.tokens[0], tree.tokens[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_share_cut),
        cmocka_unit_test(test_draft_share_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
