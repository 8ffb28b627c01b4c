// SPDX-License-Identifier: Apache-2.0
/* Reuse of rejected drafts: the run of Eq. 3 on chains against brute force, both cases, hooks, trees, lifetime. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/sources/draft_reuse.h"

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static void chain(DraftTree *tree, const uint32_t *tokens, uint32_t n) {
    draft_tree_init(tree, 1000);
    for (uint32_t i = 0; i < n; i++)
        draft_tree_add(
            tree, &(DraftNode){
                      .token = tokens[i], .reach = 0.5F, .depth = (uint8_t)(i + 1), .parent = (int16_t)((int)i - 1) });
    draft_tree_order(tree);
}

/* Lists the tokens that are drafted from a cursor on, each first choice taken. */
static uint32_t walk(const DraftReuse *reuse, DraftCursor at, uint32_t *tokens) {
    DraftChoice choices[DRAFT_CHOICES_MAX];
    uint32_t n = 0;

    while (draft_reuse_ops.choices(reuse, at, choices, DRAFT_CHOICES_MAX)) {
        DraftCursor next = draft_reuse_ops.follow(reuse, at, choices[0].token);

        assert_memory_equal(&next, &choices[0].next, sizeof(next));
        tokens[n++] = choices[0].token;
        at = next;
    }
    return n;
}

/* x are the drafts 1..n, y the target's predictions at each, e the first wrong draft. */
static void test_draft_reuse_chains(void **state) {
    uint32_t n_runs = 0;

    for (int i = 0; i < 3000; i++) {
        _cleanup_(draft_reuse_freep) DraftReuse *reuse = NULL;
        DraftTree tree;
        DraftChoice choices[DRAFT_CHOICES_MAX];
        uint32_t x[DRAFT_NODES_MAX + 1], y[DRAFT_ROWS_MAX + 1], accepted[DRAFT_ROWS_MAX], out[DRAFT_ROWS_MAX];
        uint32_t n = 1 + draw(DRAFT_NODES_MAX), e = 1, a = 0, len = 0, want;
        size_t n_choices;

        for (uint32_t k = 1; k <= n; k++) {
            x[k] = 10 + k;
            y[k] = draw(4) ? x[k] : 5;
        }
        y[n + 1] = 6;
        while (e <= n && x[e] == y[e])
            accepted[e - 1] = e, e++;
        for (uint32_t from = e + 1; from <= n; from++) {
            uint32_t to = from;

            while (to <= n && x[to] == y[to])
                to++;
            if (to - from > len) {
                a = from;
                len = to - from;
            }
        }
        chain(&tree, &x[1], n);
        assert_int_equal(draft_reuse_new(&reuse), 0);
        draft_reuse_learn(reuse, &tree, accepted, e - 1, &y[1]);
        n_choices = draft_reuse_ops.choices(reuse, draft_reuse_ops.root(reuse), choices, DRAFT_CHOICES_MAX);
        assert_int_equal(n_choices, !len ? 0 : a == e + 1 ? 2 : 1);
        if (!len)
            continue;
        n_runs++;
        want = MIN(len, DRAFT_REUSE_TOKENS_MAX - 1);
        assert_int_equal(walk(reuse, draft_reuse_ops.root(reuse), out), want);
        assert_memory_equal(out, &x[a], want * sizeof(*out));
        if (a == e + 1) {
            assert_int_equal(choices[1].token, x[e]);
            assert_int_equal(walk(reuse, choices[1].next, out), want);
        }
        assert_int_equal(walk(reuse, draft_reuse_ops.follow(reuse, (DraftCursor){ 0 }, x[a - 1]), out), want);
        assert_int_equal(walk(reuse, draft_reuse_ops.follow(reuse, (DraftCursor){ 0 }, 9999), out), 0);
    }
    assert_true(n_runs > 1000);
}

/* Behind the accepted node the deepest branch may be reused; of several the first in the order of rows. */
static void test_draft_reuse_tree(void **state) {
    static const DraftNode nodes[] = {
        { .token = 1, .reach = 0.9F, .parent = DRAFT_ROOT, .depth = 1 },
        { .token = 2, .reach = 0.7F, .parent = 0, .depth = 2 },
        { .token = 3, .reach = 0.8F, .parent = 0, .depth = 2 },
        { .token = 4, .reach = 0.6F, .parent = 2, .depth = 3 },
        { .token = 5, .reach = 0.5F, .parent = 1, .depth = 3 },
        { .token = 6, .reach = 0.4F, .parent = 3, .depth = 4 },
        { .token = 7, .reach = 0.3F, .parent = 4, .depth = 4 },
    };
    _cleanup_(draft_reuse_freep) DraftReuse *reuse = NULL;
    uint32_t tops[DRAFT_ROWS_MAX] = { 0 }, out[DRAFT_ROWS_MAX], accepted;
    DraftTree tree;

    draft_tree_init(&tree, 1000);
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
        draft_tree_add(&tree, &nodes[i]);
    draft_tree_order(&tree);
    accepted = tree.row_of[0];
    tops[0] = 1;
    tops[accepted] = 77;
    tops[tree.row_of[2]] = 4;
    tops[tree.row_of[3]] = 6;
    tops[tree.row_of[1]] = 5;
    assert_int_equal(draft_reuse_new(&reuse), 0);
    draft_reuse_learn(reuse, &tree, &accepted, 1, NULL);
    assert_int_equal(walk(reuse, draft_reuse_ops.root(reuse), out), 0);
    draft_reuse_learn(reuse, &tree, &accepted, 1, tops);
    assert_int_equal(walk(reuse, draft_reuse_ops.root(reuse), out), 2);
    assert_int_equal(out[0], 4);
    assert_int_equal(out[1], 6);
}

/* A run of `len` tokens behind a wrong one, all from `first` on. */
static void learn_run(DraftReuse *reuse, uint32_t first, uint32_t len) {
    uint32_t x[DRAFT_NODES_MAX], tops[DRAFT_ROWS_MAX] = { 0 };
    DraftTree tree;

    for (uint32_t i = 0; i <= len; i++)
        x[i] = first + i;
    for (uint32_t i = 1; i <= len; i++)
        tops[i] = x[i];
    chain(&tree, x, len + 1);
    draft_reuse_learn(reuse, &tree, NULL, 0, tops);
}

static bool has_run(const DraftReuse *reuse, uint32_t first) {
    return draft_reuse_ops.follow(reuse, (DraftCursor){ 0 }, first).a != 0;
}

static void test_draft_reuse_lifetime(void **state) {
    _cleanup_(draft_reuse_freep) DraftReuse *reuse = NULL;
    DraftTree none;

    draft_tree_init(&none, 1);
    draft_tree_order(&none);
    assert_int_equal(draft_reuse_new(&reuse), 0);
    learn_run(reuse, 100, 5);
    for (int step = 0; step < DRAFT_REUSE_STEPS_MAX; step++) {
        assert_true(has_run(reuse, 100));
        draft_reuse_learn(reuse, &none, NULL, 0, NULL);
    }
    assert_false(has_run(reuse, 100));
    learn_run(reuse, 200, 12);
    learn_run(reuse, 300, 12);
    assert_true(has_run(reuse, 200) && has_run(reuse, 300));
    learn_run(reuse, 400, 8);
    assert_true(!has_run(reuse, 200) && has_run(reuse, 300) && has_run(reuse, 400));
    learn_run(reuse, 500, 60);
    assert_true(!has_run(reuse, 300) && !has_run(reuse, 400) && has_run(reuse, 500));
    for (uint16_t bucket = 0; bucket < DRAFT_BUCKETS; bucket++)
        for (uint16_t rank = 0; rank < DRAFT_RANKS; rank++)
            assert_true(draft_reuse_ops.prior(bucket, rank) >= 0.001F && draft_reuse_ops.prior(bucket, rank) <= 0.999F);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_reuse_chains),
        cmocka_unit_test(test_draft_reuse_tree),
        cmocka_unit_test(test_draft_reuse_lifetime),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
