// SPDX-License-Identifier: Apache-2.0
/* Decision to prune trees. Where pruning pays it is on, at the threshold that pays most, and is tried again and again.
 * Where it does not pay it is tried ever more seldom. Changes for better or worse are noticed. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/exit/exit_control.h"

/* A step of 60 ms with two tokens. Threshold i saves 6 - i ms, and thresholds below `loses_up_to` lose a token in one
 * trial of `lose_each`. */
typedef struct Case {
    uint32_t loses_up_to, lose_each;
    float asked_ms;
} Case;

static ExitChoice step(ExitControl *control, const Case *it, uint32_t at) {
    const ExitChoice choice = exit_control_choose(control);
    ExitTrial trial = { .asked_ms = it->asked_ms, .token_ms = 30 };

    for (uint32_t i = 0; i < EXIT_THRESHOLDS; i++) {
        trial.saved_ms[i] = 6 - (float)i;
        trial.n_lost[i] = i < it->loses_up_to && at % it->lose_each == 0;
    }
    exit_control_emitted(control, 2);
    if (choice == EXIT_TRIAL)
        exit_control_tried(control, &trial);
    if (choice == EXIT_PRUNE)
        exit_control_pruned(control);
    return choice;
}

static void count(ExitControl *control, const Case *it, uint32_t n, uint32_t counts[3]) {
    counts[EXIT_REST] = counts[EXIT_TRIAL] = counts[EXIT_PRUNE] = 0;
    for (uint32_t i = 0; i < n; i++)
        counts[step(control, it, control->n_tokens > 0 ? (uint32_t)control->n_tokens / 2 : 0)]++;
}

static void test_exit_control_pays(void **state) {
    const Case it = { .loses_up_to = 0, .lose_each = 1, .asked_ms = 1 };
    ExitControl control;
    uint32_t counts[3];

    exit_control_init(&control);
    count(&control, &it, 8, counts);
    assert_int_equal(counts[EXIT_TRIAL], 8);
    count(&control, &it, 800, counts);
    assert_int_equal(counts[EXIT_REST], 0);
    assert_int_equal(counts[EXIT_TRIAL], 100);
    assert_int_equal(counts[EXIT_PRUNE], 700);
    assert_int_equal(exit_control_threshold(&control), 0);
}

/* The first two thresholds lose half a token a step, 15 ms. The third saves least of those that lose nothing. */
static void test_exit_control_threshold(void **state) {
    const Case it = { .loses_up_to = 2, .lose_each = 2, .asked_ms = 1 };
    ExitControl control;
    uint32_t counts[3];

    exit_control_init(&control);
    count(&control, &it, 200, counts);
    assert_int_equal(exit_control_threshold(&control), 2);
    assert_true(counts[EXIT_PRUNE] > 100);
}

static void test_exit_control_does_not_pay(void **state) {
    const Case losing = { .loses_up_to = EXIT_THRESHOLDS, .lose_each = 2, .asked_ms = 1 },
               dear = { .loses_up_to = 0, .lose_each = 1, .asked_ms = 7 };
    ExitControl control;
    uint32_t counts[3];

    for (int i = 0; i < 2; i++) {
        exit_control_init(&control);
        count(&control, i ? &dear : &losing, 2000, counts);
        assert_int_equal(counts[EXIT_PRUNE], 0);
        assert_true(counts[EXIT_TRIAL] < 40);
        assert_true(counts[EXIT_TRIAL] > 8);
    }
}

static void test_exit_control_changes(void **state) {
    const Case good = { .loses_up_to = 0, .lose_each = 1, .asked_ms = 1 },
               bad = { .loses_up_to = EXIT_THRESHOLDS, .lose_each = 1, .asked_ms = 1 };
    ExitControl control;
    uint32_t counts[3];

    exit_control_init(&control);
    count(&control, &good, 100, counts);
    assert_true(counts[EXIT_PRUNE] > 0);
    count(&control, &bad, 400, counts); /* seen only in trials */
    count(&control, &bad, 100, counts);
    assert_int_equal(counts[EXIT_PRUNE], 0);
    count(&control, &good, 6000, counts);
    assert_true(counts[EXIT_PRUNE] > 0);
    count(&control, &good, 100, counts);
    assert_true(counts[EXIT_PRUNE] > 80);
}

static void test_exit_control_unknown(void **state) {
    ExitControl control;
    const ExitTrial trial = { .saved_ms = { 6 } };

    exit_control_init(&control);
    for (uint32_t i = 0; i < 100; i++)
        exit_control_tried(&control, &trial);
    assert_int_equal(control.n_trials_left, 8);
    assert_int_equal(exit_control_choose(&control), EXIT_TRIAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_control_pays),         cmocka_unit_test(test_exit_control_threshold),
        cmocka_unit_test(test_exit_control_does_not_pay), cmocka_unit_test(test_exit_control_changes),
        cmocka_unit_test(test_exit_control_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
