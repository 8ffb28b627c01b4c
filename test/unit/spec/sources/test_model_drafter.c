// SPDX-License-Identifier: Apache-2.0
/* A draft model as a source: the drafter answers from computed rows, knows how far the model is behind the text, lets
 * it read long texts in parts, and believes no impossible probability. */
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/sources/model_drafter.h"
#include "spec/tree/source_stats.h"
#include "test/unit/fixtures/sim_model.h"

static AccountTable accounts;
static SimModel sim;

static int append(ModelDrafter *drafter, const uint32_t *tokens, size_t n) {
    return model_drafter_ops.append(drafter, tokens, n);
}

static ModelDrafter *begin(uint32_t rows_max) {
    ModelDrafter *drafter;

    account_table_init(&accounts);
    sim_model_init(&sim, 7, rows_max);
    assert_int_equal(model_drafter_new(&accounts, sim_model(&sim), &drafter), 0);
    return drafter;
}

/* Rows are found by the path to them; at a place that is not computed the source proposes nothing. */
static void test_model_drafter_rows(void **state) {
    static const uint32_t text[] = { 3, 1, 4, 1, 5 };
    static const DraftModelRow batch[] = { { -1, 5 }, { 0, 9 }, { 0, 2 }, { 2, 6 } };
    ModelDrafter *drafter = begin(6);
    DraftChoice choices[DRAFT_CHOICES_MAX];
    DraftModelTops tops;
    DraftCursor at;

    assert_int_equal(append(drafter, text, ARRAY_LEN(text)), 0);
    assert_int_equal(model_drafter_ops.choices(drafter, model_drafter_ops.root(drafter), choices, 8), 0);
    assert_int_equal(model_drafter_follow(drafter, SIZE_MAX), 0);
    assert_int_equal(model_drafter_n_left(drafter), 6);
    assert_int_equal(model_drafter_expand(drafter, batch, 1), 0);
    assert_int_equal(model_drafter_expand(drafter, batch + 1, 3), 0);
    assert_int_equal(model_drafter_n_rows(drafter), 4);
    assert_int_equal(model_drafter_n_left(drafter), 2);
    at = model_drafter_ops.root(drafter);
    assert_int_equal(at.a, 1);
    assert_int_equal(model_drafter_child(drafter, 0, 9), 1);
    assert_int_equal(model_drafter_child(drafter, 0, 2), 2);
    assert_int_equal(model_drafter_child(drafter, 0, 6), MODEL_NOWHERE);
    assert_int_equal(model_drafter_child(drafter, MODEL_NOWHERE, 6), MODEL_NOWHERE);
    at = model_drafter_ops.follow(drafter, at, 2);
    at = model_drafter_ops.follow(drafter, at, 6);
    assert_int_equal(at.a, 4);
    sim_tops(&sim, 2, 6, &tops);
    for (size_t max = 0; max <= DRAFT_CHOICES_MAX; max++) {
        assert_int_equal(model_drafter_ops.choices(drafter, at, choices, max), max);
        for (size_t i = 0; i < max; i++) {
            assert_int_equal(choices[i].token, tops.tops[i].token);
            assert_int_equal(choices[i].rank, i);
            assert_int_equal(choices[i].bucket, model_drafter_bucket(tops.tops[i].probability));
            assert_int_equal(choices[i].next.a, 0);
        }
    }
    at = model_drafter_ops.follow(drafter, at, 1);
    assert_int_equal(model_drafter_ops.choices(drafter, at, choices, 8), 0);
    assert_int_equal(append(drafter, text, 1), 0); /* the rows are still the old ones */
    assert_int_equal(model_drafter_ops.root(drafter).a, 0);
    model_drafter_free(drafter);
    assert_int_equal(accounts.total_bytes, 0);
}

/* Rows that the text went through need not be read again. */
static void test_model_drafter_behind(void **state) {
    static const uint32_t text[] = { 3, 1, 4, 1, 5 }, on[] = { 2, 6, 8, 8 };
    static const DraftModelRow batch[] = { { -1, 5 }, { 0, 9 }, { 0, 2 }, { 2, 6 }, { 3, 7 } };
    ModelDrafter *drafter = begin(99);

    assert_int_equal(model_drafter_n_behind(drafter), 0);
    assert_int_equal(append(drafter, text, ARRAY_LEN(text)), 0);
    assert_int_equal(model_drafter_n_behind(drafter), 4);
    assert_int_equal(model_drafter_follow(drafter, SIZE_MAX), 0);
    assert_int_equal(model_drafter_n_behind(drafter), 0);
    assert_int_equal(append(drafter, on, 1), 0);
    assert_int_equal(model_drafter_n_behind(drafter), 1); /* the root was not computed */
    assert_int_equal(model_drafter_follow(drafter, SIZE_MAX), 0);
    model_drafter_free(drafter);
    drafter = begin(99);
    assert_int_equal(append(drafter, text, ARRAY_LEN(text)), 0);
    assert_int_equal(model_drafter_follow(drafter, SIZE_MAX), 0);
    assert_int_equal(model_drafter_expand(drafter, batch, ARRAY_LEN(batch)), 0);
    assert_int_equal(append(drafter, on, 3), 0);
    assert_int_equal(model_drafter_n_behind(drafter), 0); /* 5, 2 and 6 are rows, 8 is the root to be */
    assert_int_equal(append(drafter, on + 3, 1), 0);
    assert_int_equal(model_drafter_n_behind(drafter), 1);
    model_drafter_free(drafter);
}

/* A long text is read in parts, each within what a step may take. */
static void test_model_drafter_in_parts(void **state) {
    uint32_t text[1000], n_parts = 0;
    ModelDrafter *drafter = begin(99);
    float ms;
    int r;

    for (uint32_t i = 0; i < ARRAY_LEN(text); i++)
        text[i] = i % SIM_KINDS;
    assert_int_equal(append(drafter, text, ARRAY_LEN(text)), 0);
    assert_int_equal(model_drafter_affords(drafter, 9, &ms), 0); /* a row takes 10 */
    assert_true(ms == 0);
    assert_int_equal(model_drafter_follow(drafter, 0), MODEL_DRAFTER_E_BEHIND);
    assert_int_equal(sim.n_follows, 0);
    do {
        const size_t behind = model_drafter_n_behind(drafter);

        r = model_drafter_follow(drafter, model_drafter_affords(drafter, 50, &ms));
        n_parts++;
        assert_true(ms > 0 && ms <= 50);
        assert_int_equal(behind - model_drafter_n_behind(drafter), r ? 128 : behind); /* 2 x (10 + 63 x 0.2) */
    } while (r == MODEL_DRAFTER_E_BEHIND);
    assert_int_equal(r, 0);
    assert_int_equal(n_parts, 8);
    assert_int_equal(sim.n_follows, 8);
    model_drafter_free(drafter);
    drafter = begin(99);
    sim.pass_ms = 0; /* not measured, so it is tried */
    assert_int_equal(append(drafter, text, ARRAY_LEN(text)), 0);
    assert_int_equal(model_drafter_affords(drafter, 9, &ms), ARRAY_LEN(text) - 1);
    assert_int_equal(model_drafter_follow(drafter, SIZE_MAX), 0);
    model_drafter_free(drafter);
}

static float sparse_cost_ms(const void *self, uint32_t n_rows) {
    return n_rows == 4 ? 8 : n_rows == 6 ? 9 : 0;
}

static void test_model_drafter_costs(void **state) {
    ModelDrafter *drafter = begin(99);

    sim.pass_ms = 0;
    assert_true(model_drafter_cost_ms(drafter, 1, 5) == 5);
    assert_true(model_drafter_cost_ms(drafter, 11, 5) == 6);
    assert_int_equal(model_drafter_pass_rows(drafter), 1);
    sim.ops.cost_ms = sparse_cost_ms;
    assert_true(model_drafter_cost_ms(drafter, 1, 5) == 8);
    assert_true(model_drafter_cost_ms(drafter, 4, 5) == 8);
    assert_true(model_drafter_cost_ms(drafter, 5, 5) == 8 * 1.02F);
    assert_true(model_drafter_cost_ms(drafter, 6, 5) == 9);
    assert_true(model_drafter_cost_ms(drafter, 16, 5) == 9 * 1.2F);
    assert_int_equal(model_drafter_pass_rows(drafter), 12);
    model_drafter_free(drafter);
}

static int mad_expand(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    *tops = (DraftModelTops){ .n = 200, .tops = { { 1, NAN }, { 2, 3 }, { 3, -1 }, { 4, 0.5F } } };
    return 0;
}

/* Errors go to the caller, and leave no row; an impossible probability is clamped. */
static void test_model_drafter_bad(void **state) {
    static const DraftModelRow root = { -1, 1 };
    static const uint32_t text[] = { 0, 1 };
    ModelDrafter *drafter = begin(99);
    const DraftModelTops *tops;
    DraftChoice choices[DRAFT_CHOICES_MAX];

    assert_int_equal(append(drafter, text, 2), 0);
    assert_int_equal(model_drafter_follow(drafter, SIZE_MAX), 0);
    sim.fails_at = 1;
    assert_int_equal(model_drafter_expand(drafter, &root, 1), -EIO);
    assert_int_equal(model_drafter_n_rows(drafter), 0);
    sim.ops.expand = mad_expand;
    assert_int_equal(model_drafter_expand(drafter, &root, 1), 0);
    tops = model_drafter_tops(drafter, 0);
    assert_int_equal(tops->n, DRAFT_CHOICES_MAX);
    assert_true(tops->tops[0].probability == 0 && tops->tops[1].probability == 1 && tops->tops[2].probability == 0);
    assert_int_equal(model_drafter_ops.choices(drafter, model_drafter_ops.root(drafter), choices, 8), 8);
    model_drafter_free(drafter);
    drafter = begin(99);
    accounts.limit_bytes[ACCOUNT_DRAFTDB] = 5000;
    assert_int_equal(append(drafter, text, 2), 0);
    for (uint32_t i = 2; i < 1024; i++)
        assert_int_equal(append(drafter, text, 1), 0);
    assert_int_equal(append(drafter, text, 1), DRAFTER_E_MEMORY);
    model_drafter_free(drafter);
    assert_int_equal(accounts.total_bytes, 0);
}

/* Priors are about the probabilities, and never lower for a more probable token. */
static void test_model_drafter_priors(void **state) {
    for (uint16_t rank = 0; rank < DRAFT_RANKS; rank++)
        for (uint16_t bucket = 1; bucket < DRAFT_BUCKETS; bucket++)
            assert_true(model_drafter_ops.prior(bucket, rank) >= model_drafter_ops.prior(bucket - 1, rank));
    for (float p = 0.002F; p < 1; p += 0.001F) {
        const float prior = model_drafter_ops.prior(model_drafter_bucket(p), 0);

        assert_true(prior > p - 0.06F && prior < p + 0.06F);
        assert_true(model_drafter_bucket(p) >= model_drafter_bucket(p - 0.001F));
    }
    assert_int_equal(model_drafter_bucket(0), 0);
    assert_int_equal(model_drafter_bucket(1), DRAFT_BUCKETS - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_drafter_rows),     cmocka_unit_test(test_model_drafter_behind),
        cmocka_unit_test(test_model_drafter_in_parts), cmocka_unit_test(test_model_drafter_costs),
        cmocka_unit_test(test_model_drafter_bad),      cmocka_unit_test(test_model_drafter_priors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
