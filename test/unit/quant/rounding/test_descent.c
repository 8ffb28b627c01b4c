// SPDX-License-Identifier: Apache-2.0
/* Tests of coordinate descent against its guarantees for every channel and weight. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "quant/rounding/blas.h"
#include "quant/rounding/descent.h"
#include "test/unit/quant/rounding/rounding_case.h"

static Grid grid; /* grid of the current tests */

static void case_descend(Case *c, unsigned int n_passes) {
    const CompensateCall call = case_call(c);

    assert_int_equal(descent_refine(&call, n_passes, c->pool), 0);
}

/* Starts from compensated rounding, and from plain rounding; k is no multiple of a block, n none of a piece. */
static void test_descent_lowers_every_error(void **cmocka) {
    static const size_t widths[] = { 1, 63, 64, 65, 200 };

    for (size_t t = 0; t < 2 * ARRAY_LEN(widths); t++) {
        double before[70], sum_before = 0, sum = 0;
        Case c;

        case_init(&c, grid, ARRAY_LEN(before), widths[t / 2], 700, 2);
        if (t % 2)
            case_round_plainly(&c);
        else
            case_round(&c);
        for (size_t r = 0; r < c.n; r++)
            before[r] = case_error(&c, r, c.q);
        case_descend(&c, 3);
        for (size_t r = 0; r < c.n; r++) {
            double after = case_error(&c, r, c.q);

            assert_true(after <= before[r] * (1 + 1e-5));
            assert_true(fabs(after - c.errors[r]) <= 1e-3 * after + 1e-6 * before[r]);
            sum_before += before[r];
            sum += after;
        }
        assert_true(c.k == 1 || sum < (t % 2 ? 0.3 : 1) * sum_before);
        case_deinit(&c);
    }
}

/* After it ends by itself, no other level of any single weight is better. */
static void test_descent_ends_where_no_weight_can_do_better(void **cmocka) {
    Case c;

    case_init(&c, grid, 24, 150, 400, 2);
    case_round_plainly(&c);
    case_descend(&c, 1000);
    for (size_t r = 0; r < c.n; r++) {
        double error = case_error(&c, r, c.q);

        for (size_t i = 0; i < c.k; i++)
            for (int step = -1; step <= 1; step += 2) {
                int8_t *q = &c.q[r * c.k + i], level = *q;
                int code = grid_code(grid, level, c.bits[r]) + step;

                if (code < (c.bits[r] == 8) || code >= 1 << c.bits[r])
                    continue;
                *q = (int8_t)grid_level(grid, code, c.bits[r]);
                assert_true(case_error(&c, r, c.q) >= error * (1 - 1e-5));
                *q = level;
            }
    }
    case_deinit(&c);
}

static void test_descent_stays_on_the_grid(void **cmocka) {
    Case c;

    case_init(&c, grid, 40, 100, 300, 2);
    case_zero_channels(&c);
    case_round(&c);
    case_descend(&c, 5);
    case_assert_on_grid(&c);
    case_deinit(&c);
}

/* Weights and inputs whose product overflows float32, then weights whose sums are not finite. */
static void test_descent_leaves_alone_what_it_cannot_tell(void **cmocka) {
    static const struct {
        float weights, moments;
    } cases[] = { { 0x1p-90f, 0x1p-70f }, { 0x1p-90f, 0x1p-45f }, { 0x1p100f, 0x1p30f } };

    for (size_t t = 0; t < ARRAY_LEN(cases); t++) {
        Case c;

        case_init(&c, grid, 40, 100, 300, 2);
        for (size_t i = 0; i < c.n * c.k; i++)
            c.w[i] *= cases[t].weights;
        for (size_t r = 0; r < c.n; r++)
            c.scales[r] *= cases[t].weights;
        for (size_t i = 0; i < c.k * c.k; i++)
            c.factor.m[i] *= i / c.k < i % c.k ? cases[t].moments : 1;
        for (size_t i = 0; i < c.k; i++)
            c.factor.diagonal[i] *= cases[t].moments;
        case_round(&c);
        case_descend(&c, 5);
        case_assert_on_grid(&c);
        case_deinit(&c);
    }
}

static void test_descent_bits_do_not_depend_on_threads(void **cmocka) {
    Case one, many;

    case_init(&one, grid, 200, 300, 600, 1);
    case_init(&many, grid, 200, 300, 600, 3);
    case_round(&one);
    case_round(&many);
    case_descend(&one, 2);
    case_descend(&many, 2);
    assert_memory_equal(one.q, many.q, one.n * one.k);
    assert_memory_equal(one.errors, many.errors, one.n * sizeof(double));
    case_deinit(&one);
    case_deinit(&many);
}

static int load_library(void **cmocka) {
    ErrText err;

    return blas_load(&err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descent_lowers_every_error),
        cmocka_unit_test(test_descent_ends_where_no_weight_can_do_better),
        cmocka_unit_test(test_descent_stays_on_the_grid),
        cmocka_unit_test(test_descent_leaves_alone_what_it_cannot_tell),
        cmocka_unit_test(test_descent_bits_do_not_depend_on_threads),
    };
    int failed = 0;

    for (; grid < _GRID_N && !failed; grid++)
        failed = cmocka_run_group_tests_name(grid_name(grid), tests, load_library, NULL);
    return failed;
}
