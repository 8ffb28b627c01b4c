// SPDX-License-Identifier: Apache-2.0
/* Tests of error-compensated rounding against OPTQ in double precision. */
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
#include "quant/rounding/compensate.h"
#include "test/unit/quant/rounding/rounding_case.h"

static Grid grid; /* grid of the current tests */

/* OPTQ as in the paper, in double precision: columns by falling diagonal; the error of each is spread over later
 * columns by the upper Cholesky factor of the inverse. */
static void optq(const Case *c, size_t channel, int8_t *q) {
    size_t k = c->k;
    double *a = calloc(k * 2 * k, sizeof(*a)), *u = calloc(k * k, sizeof(*u)), *w = malloc(k * sizeof(*w));

    assert_non_null(a);
    assert_non_null(u);
    assert_non_null(w);
    for (size_t i = 0; i < k; i++) { /* position i of OPTQ is position k - 1 - i of the factor */
        size_t input = c->factor.order[k - 1 - i];

        w[i] = (double)c->w[channel * k + input];
        for (size_t j = 0; j < k; j++)
            a[i * 2 * k + j] = c->h[input * k + c->factor.order[k - 1 - j]];
        a[i * 2 * k + k + i] = 1;
    }
    for (size_t p = 0; p < k; p++) /* Gauss-Jordan: the right half becomes the inverse */
        for (size_t i = 0; i < k; i++) {
            double f = i == p ? 1 / a[p * 2 * k + p] : -a[i * 2 * k + p] / a[p * 2 * k + p];

            if (i == p)
                continue;
            for (size_t j = 0; j < 2 * k; j++)
                a[i * 2 * k + j] += f * a[p * 2 * k + j];
        }
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            a[i * 2 * k + k + j] /= a[i * 2 * k + i];
    for (size_t i = 0; i < k; i++) /* inverse = U^T U */
        for (size_t j = i; j < k; j++) {
            double sum = a[i * 2 * k + k + j];

            for (size_t p = 0; p < i; p++)
                sum -= u[p * k + i] * u[p * k + j];
            u[i * k + j] = i == j ? sqrt(sum) : sum / u[i * k + i];
        }
    for (size_t i = 0; i < k; i++) {
        double s = (double)c->scales[channel], level = case_level(c->grid, w[i] / s, c->bits[channel]);
        double error = (w[i] - s * level) / u[i * k + i];

        q[channel * k + c->factor.order[k - 1 - i]] = (int8_t)level;
        for (size_t j = i; j < k; j++)
            w[j] -= error * u[i * k + j];
    }
    free(a);
    free(u);
    free(w);
}

static void test_compensate_gives_what_optq_gives(void **cmocka) {
    Case c;
    size_t differ = 0;
    int8_t *q;

    case_init(&c, grid, 24, 96, 400, 2);
    q = malloc(c.n * c.k);
    assert_non_null(q);
    case_round(&c);
    for (size_t r = 0; r < c.n; r++) {
        optq(&c, r, q);
        for (size_t i = 0; i < c.k; i++)
            differ += q[r * c.k + i] != c.q[r * c.k + i];
        /* A weight on the border of two levels may be rounded the other way in float32, and later ones follow. */
        assert_true(fabs(case_error(&c, r, q) - case_error(&c, r, c.q)) <= 0.05 * case_error(&c, r, q) + 1e-9);
    }
    assert_true(differ <= c.n * c.k / 50);
    free(q);
    case_deinit(&c);
}

static void test_compensate_reports_the_error_under_the_moments(void **cmocka) {
    Case c;

    case_init(&c, grid, 17, 130, 500, 2);
    case_round(&c);
    for (size_t r = 0; r < c.n; r++)
        assert_true(fabs(c.errors[r] - case_error(&c, r, c.q)) <= 2e-3 * c.errors[r]);
    case_deinit(&c);
}

static void test_compensate_beats_rounding_to_nearest(void **cmocka) {
    Case c;
    double plain = 0, compensated = 0;
    int8_t *q;

    case_init(&c, grid, 32, 192, 800, 2);
    q = malloc(c.n * c.k);
    assert_non_null(q);
    case_round(&c);
    for (size_t r = 0; r < c.n; r++) {
        for (size_t i = 0; i < c.k; i++)
            q[r * c.k + i] = (int8_t)case_level(grid, (double)c.w[r * c.k + i] / (double)c.scales[r], c.bits[r]);
        plain += case_error(&c, r, q);
        compensated += case_error(&c, r, c.q);
    }
    assert_true(compensated < 0.5 * plain);
    free(q);
    case_deinit(&c);
}

static void test_compensate_stays_on_the_grid(void **cmocka) {
    Case c;

    case_init(&c, grid, 40, 100, 300, 2);
    case_zero_channels(&c);
    case_round(&c);
    case_assert_on_grid(&c);
    case_deinit(&c);
}

static void test_compensate_bits_do_not_depend_on_threads(void **cmocka) {
    Case one, many;

    for (unsigned int n_threads = 2; n_threads <= 5; n_threads++) {
        case_init(&one, grid, 200, 520, 600, 1);
        case_init(&many, grid, 200, 520, 600, n_threads);
        case_round(&one);
        case_round(&many);
        assert_memory_equal(one.factor.m + 519 * 520, many.factor.m + 519 * 520, 519 * sizeof(float));
        assert_memory_equal(one.factor.d, many.factor.d, 520 * sizeof(float));
        assert_memory_equal(one.q, many.q, one.n * one.k);
        case_deinit(&one);
        case_deinit(&many);
    }
}

static int load_library(void **cmocka) {
    ErrText err;

    return blas_load(&err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compensate_gives_what_optq_gives),
        cmocka_unit_test(test_compensate_reports_the_error_under_the_moments),
        cmocka_unit_test(test_compensate_beats_rounding_to_nearest),
        cmocka_unit_test(test_compensate_stays_on_the_grid),
        cmocka_unit_test(test_compensate_bits_do_not_depend_on_threads),
    };
    int failed = 0;

    for (; grid < _GRID_N && !failed; grid++)
        failed = cmocka_run_group_tests_name(grid_name(grid), tests, load_library, NULL);
    return failed;
}
