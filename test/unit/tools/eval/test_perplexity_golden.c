// SPDX-License-Identifier: Apache-2.0
/* Tests the comparison of a perplexity with golden values: chance passes, and a loss of 1 % does not. */
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "test/unit/fixtures/model_maker.h"
#include "tools/eval/quality/perplexity_golden.h"

enum {
    N_WINDOWS = 16,
    WINDOW = 512
};

#define TOLERANCE 0.005

static char folder[256], path[300];

static int setup(void **state) {
    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/golden.json", folder);
    return 0;
}

static int teardown(void **state) {
    test_folder_remove(folder);
    return 0;
}

static double golden_at(size_t window) {
    return 3 + 0.125 * (double)(window % 5);
}

/* Writes golden values of n windows as the entry "model". */
static void write_golden(size_t n) {
    char text[2048];
    int at = snprintf(text, sizeof(text), "{\"model\": {\"window\": %d, \"window_mean_nll\": [", WINDOW);

    for (size_t i = 0; i < n; i++)
        at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%.5f", i ? ", " : "", golden_at(i));
    at += snprintf(text + at, sizeof(text) - (size_t)at, "]}}");
    test_write_file(folder, "golden.json", text, (size_t)at);
}

/* Compares n windows whose losses are the golden ones plus differences[i] + shift. */
static GoldenDeviation deviation_of(const double *differences, double shift, size_t n) {
    double means[N_WINDOWS];
    const Perplexity run = { .means = means, .n_windows = n, .window = WINDOW };
    GoldenDeviation deviation;
    ErrText err;

    for (size_t i = 0; i < n; i++)
        means[i] = golden_at(i) + differences[i] + shift;
    if (golden_deviation(&run, path, "model", &deviation, &err))
        fail_msg("%s", err.text);
    return deviation;
}

static void draw(double *differences, double spread, uint64_t seed) {
    for (size_t i = 0; i < N_WINDOWS; i++)
        differences[i] = spread * (double)test_random_normal(&seed);
}

/* Chance moves a window of 255 tokens by 0.0063 (rms), as measured. */
static void test_golden_chance_passes_and_a_loss_does_not(void **state) {
    enum {
        N_DRAWS = 2000
    };
    size_t n_passed = 0, n_lost = 0;

    write_golden(N_WINDOWS);
    for (uint64_t seed = 1; seed <= N_DRAWS; seed++) {
        double differences[N_WINDOWS];
        GoldenDeviation chance, better, lost;

        draw(differences, 0.0063, seed);
        chance = deviation_of(differences, 0.003, N_WINDOWS);
        lost = deviation_of(differences, 0.003 + log(1.01), N_WINDOWS);
        better = deviation_of(differences, -0.003 - log(1.01), N_WINDOWS);
        n_passed += golden_deviation_is_within(&chance, TOLERANCE, false);
        n_lost += !golden_deviation_is_within(&lost, TOLERANCE, false);
        n_lost += !golden_deviation_is_within(&better, TOLERANCE, false); /* a text that the model sees beforehand */
    }
    assert_true(n_passed >= 0.99 * N_DRAWS);
    assert_true(n_lost >= 2 * 0.99 * N_DRAWS);
}

static void test_golden_numbers(void **state) {
    double differences[N_WINDOWS], sum = 0, squares = 0, worst = 0;
    GoldenDeviation deviation;

    write_golden(N_WINDOWS);
    draw(differences, 0.02, 7);
    deviation = deviation_of(differences, 0.004, N_WINDOWS);
    for (size_t i = 0; i < N_WINDOWS; i++) {
        sum += differences[i] + 0.004;
        if (fabs(expm1(differences[i] + 0.004)) > fabs(worst))
            worst = expm1(differences[i] + 0.004);
    }
    for (size_t i = 0; i < N_WINDOWS; i++)
        squares += pow(differences[i] + 0.004 - sum / N_WINDOWS, 2);
    assert_true(fabs(deviation.overall - expm1(sum / N_WINDOWS)) < 1e-9);
    assert_true(fabs(deviation.standard_error - sqrt(squares / (N_WINDOWS - 1)) / sqrt(N_WINDOWS)) < 1e-9);
    assert_true(fabs(deviation.worst - worst) < 1e-9);
    assert_true(golden_deviation_limit(&deviation, 0.001, true) == 0.001);
    assert_true(fabs(golden_deviation_limit(&deviation, 0.001, false) - 0.001 - 2 * deviation.standard_error) < 1e-12);
}

/* The reference device has no chance: neither all windows nor a single one may differ. */
static void test_golden_exact(void **state) {
    const double one[N_WINDOWS] = { [3] = 1.2e-4, [5] = -1.2e-4 }, few[N_WINDOWS] = { [3] = 0.9e-4 };
    GoldenDeviation deviation;

    write_golden(N_WINDOWS);
    deviation = deviation_of(one, 0, N_WINDOWS);
    assert_false(golden_deviation_is_within(&deviation, 1e-4, true));
    assert_true(golden_deviation_is_within(&deviation, 1e-4, false));
    assert_non_null(strstr(deviation.where, "window 3: mean nll 3.37512, golden 3.37500"));
    deviation = deviation_of(few, 0, N_WINDOWS);
    assert_true(golden_deviation_is_within(&deviation, 1e-4, true));
}

/* A single window has no error to estimate: the tolerance alone counts. */
static void test_golden_fewer_windows(void **state) {
    const double differences[N_WINDOWS] = { 0.004, 0.02 };
    GoldenDeviation deviation;

    write_golden(1);
    deviation = deviation_of(differences, 0, 2);
    assert_true(deviation.standard_error == 0 && golden_deviation_is_within(&deviation, TOLERANCE, false));
    write_golden(2);
    deviation = deviation_of(differences, 0, 1);
    assert_true(deviation.standard_error == 0 && golden_deviation_is_within(&deviation, TOLERANCE, false));
    assert_false(golden_deviation_is_within(&deviation, 0.0039, false));
}

static void test_golden_not_finite(void **state) {
    const double values[] = { NAN, INFINITY, -INFINITY };

    write_golden(N_WINDOWS);
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        const double differences[N_WINDOWS] = { [1] = values[i] };
        const GoldenDeviation deviation = deviation_of(differences, 0, N_WINDOWS);

        assert_false(golden_deviation_is_within(&deviation, TOLERANCE, true));
        assert_false(golden_deviation_is_within(&deviation, TOLERANCE, false));
    }
}

static void expect_refusal(const char *text, const char *name, const char *expected) {
    double means[1] = { 3 };
    const Perplexity run = { .means = means, .n_windows = 1, .window = WINDOW };
    GoldenDeviation deviation;
    ErrText err;

    if (text)
        test_write_file(folder, "golden.json", text, strlen(text));
    else
        assert_int_equal(remove(path), 0);
    assert_int_equal(golden_deviation(&run, path, name, &deviation, &err), -EINVAL);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, expected));
}

static void test_golden_refuses_other_files(void **state) {
    write_golden(1);
    expect_refusal("{}", "model", "no entry 'model' with windows of 512 tokens (--name NAME)");
    expect_refusal("{\"model\": 7}", "model", "no entry 'model'");
    expect_refusal("{\"model\": {\"window\": 256, \"window_mean_nll\": [3]}}", "model", "windows of 512");
    expect_refusal("{\"model\": {\"window\": 512, \"window_mean_nll\": []}}", "model", "no entry");
    expect_refusal("{\"model\"", "model", "(--name NAME): ");
    expect_refusal(NULL, NULL, "(--name NAME): ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_chance_passes_and_a_loss_does_not),
        cmocka_unit_test(test_golden_numbers),
        cmocka_unit_test(test_golden_exact),
        cmocka_unit_test(test_golden_fewer_windows),
        cmocka_unit_test(test_golden_not_finite),
        cmocka_unit_test(test_golden_refuses_other_files),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
