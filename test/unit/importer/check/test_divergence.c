// SPDX-License-Identifier: Apache-2.0
/* Tests the divergence of one row against its definition; test/integration/test_eval.py tests whole models. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "importer/check/quantization_check.h"

static void test_divergence_of_known_rows(void **state) {
    /* q = (1/2, 1/4, 1/4), p = (1/4, 1/2, 1/4); logits are logs but for a constant. */
    const float q[] = { 5 + logf(0.5f), 5 + logf(0.25f), 5 + logf(0.25f) };
    const float p[] = { -3 + logf(0.25f), -3 + logf(0.5f), -3 + logf(0.25f) };
    bool same = true;

    assert_true(fabs(divergence_of_row(q, p, 3, &same) - 0.25 * log(2)) < 1e-6);
    assert_false(same);
    assert_true(divergence_of_row(p, p, 3, &same) == 0);
    assert_true(same);
}

static void test_divergence_is_not_symmetric_and_never_negative(void **state) {
    float a[200], b[200];
    bool same;

    srand(7);
    for (int round = 0; round < 50; round++) {
        double there, back;

        for (size_t i = 0; i < 200; i++) {
            a[i] = (float)(rand() % 2000) / 100 - 10;
            b[i] = a[i] + (float)(rand() % 200) / 100 - 1;
        }
        there = divergence_of_row(a, b, 200, &same);
        back = divergence_of_row(b, a, 200, &same);
        assert_true(there > 0 && back > 0 && there != back);
    }
}

static void test_divergence_takes_the_lowest_of_equal_tops(void **state) {
    const float a[] = { 1, 3, 3, 0 }, b[] = { 1, 2, 3, 3 }, c[] = { 1, 4, 3, 0 };
    bool same;

    (void)divergence_of_row(a, b, 4, &same);
    assert_false(same);
    (void)divergence_of_row(a, c, 4, &same);
    assert_true(same);
}

/* Logits far from 0 must not overflow. */
static void test_divergence_of_large_logits(void **state) {
    const float a[] = { 5000, 4999, -5000 }, b[] = { 5000, 5000, -5000 };
    bool same;
    double expected = 0.5 * (log(0.5) - log(1 / (1 + exp(-1)))) + 0.5 * (log(0.5) - log(exp(-1) / (1 + exp(-1))));

    assert_true(fabs(divergence_of_row(a, b, 3, &same) - expected) < 1e-9);
}

static void test_divergence_harm(void **state) {
    assert_string_equal(quantization_harm_name(quantization_harm_of(0)), "none");
    assert_string_equal(quantization_harm_name(quantization_harm_of(0.00999)), "none");
    assert_string_equal(quantization_harm_name(quantization_harm_of(0.01)), "little");
    assert_string_equal(quantization_harm_name(quantization_harm_of(0.05)), "some");
    assert_string_equal(quantization_harm_name(quantization_harm_of(0.2)), "much");
    assert_string_equal(quantization_harm_name(quantization_harm_of(NAN)), "much");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divergence_of_known_rows),
        cmocka_unit_test(test_divergence_is_not_symmetric_and_never_negative),
        cmocka_unit_test(test_divergence_takes_the_lowest_of_equal_tops),
        cmocka_unit_test(test_divergence_of_large_logits),
        cmocka_unit_test(test_divergence_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
