// SPDX-License-Identifier: Apache-2.0
/* Calibration: heaviest successors against sums over all places, pair before single token, threshold, depth. */
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
#include "spec/sources/calibration.h"

enum {
    KINDS = 6, /* fewer than a context keeps: sums are exact */
    N_PLACES = 400
};

typedef struct Place {
    uint32_t before, token;
    ContextTop top[4];
} Place;

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static Place places[N_PLACES];

/* Sums chances by token; returns at how many places the context stands. before: CONTEXT_NO_TOKEN: any token. */
static uint32_t naive_sums(uint32_t n_places, uint32_t before, uint32_t token, float *sums) {
    uint32_t n = 0;

    memset(sums, 0, KINDS * sizeof(*sums));
    for (uint32_t i = 0; i < n_places; i++) {
        if (places[i].token != token || (before != CONTEXT_NO_TOKEN && places[i].before != before))
            continue;
        n++;
        for (int k = 0; k < CALIBRATION_TOP; k++)
            if (places[i].top[k].probability >= 0.05F)
                sums[places[i].top[k].token] += places[i].top[k].probability;
    }
    return n;
}

static void check_choices(const Calibration *calibration, uint32_t n_places, uint32_t before, uint32_t token) {
    DraftChoice choices[DRAFT_CHOICES_MAX];
    float sums[KINDS];
    uint32_t n = naive_sums(n_places, before, token, sums);
    bool pair = n > 0;
    size_t n_choices, n_sums = 0;

    if (!pair)
        n = naive_sums(n_places, CONTEXT_NO_TOKEN, token, sums);
    for (int t = 0; t < KINDS; t++)
        n_sums += sums[t] > 0;
    n_choices = calibration_ops.choices(calibration, (DraftCursor){ before, token, 2 }, choices, DRAFT_CHOICES_MAX);
    assert_int_equal(n_choices, MIN(n_sums, CALIBRATION_TOP));
    for (size_t i = 0; i < n_choices; i++) {
        float most = 0, sum = sums[choices[i].token];

        for (int t = 0; t < KINDS; t++)
            most = MAX(sums[t], most);
        assert_true(sum == most);
        assert_int_equal(choices[i].rank, i);
        assert_int_equal(choices[i].bucket, (pair ? CONTEXT_CLASSES : 0) + context_class(sum / (float)n));
        sums[choices[i].token] = 0;
    }
}

static void test_calibration_naive(void **state) {
    _cleanup_(calibration_freep) Calibration *calibration = NULL;
    AccountTable accounts;

    account_table_init(&accounts);
    assert_int_equal(calibration_new(&accounts, &calibration), 0);
    for (uint32_t i = 0; i < N_PLACES; i++) {
        uint32_t first = draw(KINDS);

        places[i].before = i ? places[i - 1].token : CONTEXT_NO_TOKEN;
        places[i].token = draw(KINDS);
        for (uint32_t k = 0; k < 4; k++)
            places[i].top[k] = (ContextTop){ (first + k) % KINDS, (float)(draw(90) + 1) / (float)(100 * (k + 1)) };
        assert_int_equal(calibration_observe(calibration, places[i].before, places[i].token, places[i].top, 4), 0);
        check_choices(calibration, i + 1, draw(KINDS), draw(KINDS));
        check_choices(calibration, i + 1, places[i].before == CONTEXT_NO_TOKEN ? 0 : places[i].before, places[i].token);
    }
    calibration_free(steal(&calibration));
    assert_int_equal(accounts.total_bytes, 0);
}

/* A loop of one token is followed eight tokens deep, whatever way the cursor came. */
static void test_calibration_depth(void **state) {
    const DrafterOps *ops = &calibration_ops;
    _cleanup_(calibration_freep) Calibration *calibration = NULL;
    const ContextTop top = { 3, 0.9F };
    const uint32_t text[] = { 3, 3, 3 };
    AccountTable accounts;
    DraftChoice choice;
    DraftCursor at;

    account_table_init(&accounts);
    assert_int_equal(calibration_new(&accounts, &calibration), 0);
    assert_int_equal(ops->choices(calibration, ops->root(calibration), &choice, 1), 0);
    assert_int_equal(calibration_observe(calibration, 3, 3, &top, 1), 0);
    assert_int_equal(ops->append(calibration, text, 3), 0);
    at = ops->root(calibration);
    for (int depth = 0; depth < CALIBRATION_DEPTH_MAX; depth++) {
        assert_int_equal(ops->choices(calibration, at, &choice, 1), 1);
        at = depth & 1 ? choice.next : ops->follow(calibration, at, 3);
    }
    assert_int_equal(ops->choices(calibration, at, &choice, 1), 0);
}

/* The ninth successor takes the place of the least. */
static void test_calibration_full(void **state) {
    _cleanup_(calibration_freep) Calibration *calibration = NULL;
    AccountTable accounts;
    DraftChoice choices[DRAFT_CHOICES_MAX];

    account_table_init(&accounts);
    assert_int_equal(calibration_new(&accounts, &calibration), 0);
    for (uint32_t i = 0; i < 9; i++) {
        const ContextTop top = { 10 + i, i == 4 ? 0.1F : 0.2F };

        assert_int_equal(calibration_observe(calibration, 1, 2, &top, 1), 0);
        assert_int_equal(calibration_observe(calibration, 1, 2, &top, i == 8), 0);
    }
    assert_int_equal(calibration_ops.choices(calibration, (DraftCursor){ 1, 2, 2 }, choices, 8), CALIBRATION_TOP);
    assert_int_equal(choices[0].token, 18);
    for (uint16_t bucket = 0; bucket < DRAFT_BUCKETS; bucket++)
        for (uint16_t rank = 0; rank < DRAFT_RANKS; rank++)
            assert_true(calibration_ops.prior(bucket, rank) >= 0.001F && calibration_ops.prior(bucket, rank) <= 0.999F);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calibration_naive),
        cmocka_unit_test(test_calibration_depth),
        cmocka_unit_test(test_calibration_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
