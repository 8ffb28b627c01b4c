// SPDX-License-Identifier: Apache-2.0
/* Candidates behind the rows of a tree: all children first, then what sources would have proposed there, each token
 * once, and none behind rows without children. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/exit/draft_shadows.h"

/* A source whose choices behind a path are the sum of its tokens and `step`, twice that, and so on. */
typedef struct Sums {
    uint32_t step;
} Sums;

static DraftCursor sums_root(const void *self) {
    return (DraftCursor){ .a = 1000 };
}

static DraftCursor sums_follow(const void *self, DraftCursor at, uint32_t token) {
    return (DraftCursor){ .a = at.a + token };
}

static size_t sums_choices(const void *self, DraftCursor at, DraftChoice *choices, size_t max) {
    const Sums *sums = self;

    for (size_t i = 0; i < max; i++)
        choices[i] = (DraftChoice){ .token = at.a + sums->step * (uint32_t)(i + 1) };
    return max;
}

static const DrafterOps sums_ops = { .root = sums_root, .follow = sums_follow, .choices = sums_choices };

static void add(DraftTree *tree, int parent, uint32_t token) {
    draft_tree_add(tree, &(DraftNode){ .token = token,
                                       .parent = (int16_t)parent,
                                       .depth = (uint8_t)(parent < 0 ? 1 : tree->nodes[parent].depth + 1),
                                       .reach = 0.5F });
}

static void test_draft_shadows_candidates(void **state) {
    Sums one = { 1 }, two = { 2 };
    const Drafter drafters[3] = { { &sums_ops, &one }, { 0 }, { &sums_ops, &two } };
    DraftEdge edges[SHADOW_EDGES_MAX];
    DraftTree tree;
    size_t n;

    draft_tree_init(&tree, 5);
    add(&tree, DRAFT_ROOT, 1002);
    add(&tree, 0, 7); /* no source says so */
    add(&tree, DRAFT_ROOT, 1001);
    add(&tree, 1, 9);
    draft_tree_order(&tree);
    n = draft_shadows(&tree, (DraftSources){ drafters, 3, NULL, NULL }, edges);
    /* behind the root 1001..1008 and 1010, 1012, 1014, 1016; behind 1002 its child, 2003..2010 and 2012, 2014, 2016,
     * 2018 */
    assert_int_equal(n, 12 + 13 + 13);
    assert_int_equal(edges[0].token, 1002);
    assert_int_equal(edges[0].child, 1);
    assert_int_equal(edges[1].token, 1001);
    assert_int_equal(edges[1].child, 4);
    assert_int_equal(edges[12].token, 7);
    assert_int_equal(edges[12].row, 1);
    assert_int_equal(edges[12].child, 2);
    assert_int_equal(edges[13].token, 2003);
    assert_int_equal(edges[24].token, 2018);
    assert_int_equal(edges[25].token, 9);
    assert_int_equal(edges[26].token, 1000 + 1002 + 7 + 1);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(edges[i].row, (i >= 12) + (i >= 25));
        assert_int_equal(edges[i].child, i == 0 ? 1 : i == 1 ? 4 : i == 12 ? 2 : i == 25 ? 3 : -1);
        for (size_t j = 0; j < i; j++)
            assert_false(edges[i].row == edges[j].row && edges[i].token == edges[j].token);
    }
}

/* The most candidates that a tree can have: a chain, and a star with more children than candidates. */
static void test_draft_shadows_most(void **state) {
    Sums one = { 1 }, two = { 100 }, three = { 10000 };
    const Drafter drafters[3] = { { &sums_ops, &one }, { &sums_ops, &two }, { &sums_ops, &three } };
    DraftEdge edges[SHADOW_EDGES_MAX];
    DraftTree tree;

    draft_tree_init(&tree, 5);
    for (int i = 0; i < DRAFT_NODES_MAX; i++)
        add(&tree, i - 1, 3);
    draft_tree_order(&tree);
    assert_int_equal(draft_shadows(&tree, (DraftSources){ drafters, 3, NULL, NULL }, edges),
                     DRAFT_NODES_MAX * SHADOWS_EACH);
    draft_tree_init(&tree, 5);
    for (int i = 0; i < DRAFT_NODES_MAX; i++)
        add(&tree, DRAFT_ROOT, (uint32_t)i);
    draft_tree_order(&tree);
    assert_int_equal(draft_shadows(&tree, (DraftSources){ drafters, 3, NULL, NULL }, edges), DRAFT_NODES_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_shadows_candidates),
        cmocka_unit_test(test_draft_shadows_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
