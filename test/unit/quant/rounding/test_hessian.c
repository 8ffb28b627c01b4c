// SPDX-License-Identifier: Apache-2.0
/* Tests of the second moments of inputs and of their factor, against double-precision forms of their definitions. */
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
#include "base/min_max.h"
#include "quant/rotate.h"
#include "quant/rounding/blas.h"
#include "quant/rounding/hessian.h"
#include "quant/rounding/hessian_product.h"
#include "test/unit/quant/rounding/rounding_case.h"

static void test_hessian_factor_is_that_of_the_damped_moments(void **cmocka) {
    static const size_t widths[] = { 1, 3, 64, 255, 256, 257, 600 };

    for (size_t t = 0; t < ARRAY_LEN(widths); t++) {
        Case c;

        case_init(&c, GRID_UNIFORM, 1, widths[t], 700, 2);
        for (size_t i = 0; i < c.k; i++)
            for (size_t j = 0; j < c.k; j++) {
                size_t a = c.factor.order[i], b = c.factor.order[j];
                double sum = 0, scale = sqrt(c.h[a * c.k + a] * c.h[b * c.k + b]);

                for (size_t p = 0; p <= MIN(i, j); p++)
                    sum += (double)c.factor.d[p] * (p == i ? 1 : (double)c.factor.m[i * c.k + p]) *
                           (p == j ? 1 : (double)c.factor.m[j * c.k + p]);
                assert_true(fabs(sum - c.h[a * c.k + b]) <= 1e-4 * scale);
                /* The moments stay above the diagonal, and in factor.diagonal. */
                if (i <= j)
                    assert_true(fabs((double)(i < j ? c.factor.m[i * c.k + j] : c.factor.diagonal[i]) -
                                     c.h[a * c.k + b]) <= 1e-5 * scale);
            }
        for (size_t i = 1; i < c.k; i++)
            assert_true(c.h[c.factor.order[i - 1] * (c.k + 1)] <= c.h[c.factor.order[i] * (c.k + 1)] * 1.0001);
        case_deinit(&c);
    }
}

/* Rows by position times the moments; k within a block of columns, at its borders and past them. */
static void test_hessian_product_is_that_of_the_moments(void **cmocka) {
    static const size_t widths[] = { 1, 3, 64, 65, 129, 257 }, n = 5;

    for (size_t t = 0; t < ARRAY_LEN(widths); t++) {
        const size_t k = widths[t];
        _cleanup_(freep) float *x = malloc(n * k * sizeof(*x)), *y = malloc(n * k * sizeof(*y));
        Case c;

        case_init(&c, GRID_UNIFORM, 1, k, 700, 1);
        assert_true(x && y);
        for (size_t i = 0; i < n * k; i++)
            x[i] = (float)gaussian();
        hessian_product(&c.factor, x, n, y);
        for (size_t r = 0; r < n; r++)
            for (size_t j = 0; j < k; j++) {
                double sum = 0, size = 0;

                for (size_t i = 0; i < k; i++) {
                    const double part = (double)x[r * k + i] * c.h[c.factor.order[i] * k + c.factor.order[j]];

                    sum += part;
                    size += fabs(part);
                }
                assert_true(fabs((double)y[r * k + j] - sum) <= 1e-5 * size);
            }
        case_deinit(&c);
    }
}

static void test_hessian_factor_refuses_inputs_without_energy(void **cmocka) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    static const float bad[] = { 0, NAN, INFINITY, -1 };
    HessianFactor factor;

    assert_int_equal(worker_pool_new(&pool, 1), 0);
    for (size_t t = 0; t < ARRAY_LEN(bad); t++) {
        float *h = calloc(64, sizeof(*h));

        for (size_t i = 0; i < 8; i++)
            h[i * 9] = bad[t];
        assert_int_equal(hessian_factor(&factor, h, 8, 0.01, pool), HESSIAN_E_SINGULAR);
        assert_null(factor.m);
    }
}

static void test_hessian_shrink_is_a_mix_with_independent_inputs(void **cmocka) {
    static const struct {
        size_t k;
        uint32_t block;
    } cases[] = { { 64, 32 }, { 96, 0 }, { 256, 128 } };

    for (size_t t = 0; t < ARRAY_LEN(cases); t++) {
        _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
        size_t k = cases[t].k;
        float *h = calloc(k * k, sizeof(*h)), *energies = calloc(k, sizeof(*energies)),
              *rows = calloc(k * k, sizeof(*rows));

        assert_int_equal(worker_pool_new(&pool, 2), 0);
        for (size_t i = 0; i < k; i++) { /* independent inputs: each row has one of them, rotated */
            rows[i * k + i] = (float)(1 + i % 5);
            energies[i] = rows[i * k + i] * rows[i * k + i];
            if (cases[t].block)
                rotate_row(rows + i * k, k, cases[t].block);
        }
        for (size_t i = 0; i < k * k; i++)
            h[i] = (float)(i % 11);
        assert_int_equal(hessian_shrink(h, energies, k, cases[t].block, 0.25f, pool), 0);
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j <= i; j++) {
                double prior = 0;

                for (size_t r = 0; r < k; r++)
                    prior += (double)rows[r * k + i] * (double)rows[r * k + j];
                assert_true(fabs((double)h[i * k + j] - 0.75 * (double)((i * k + j) % 11) - 0.25 * prior) < 1e-3);
            }
        free(h);
        free(energies);
        free(rows);
    }
}

static int load_library(void **state) {
    ErrText err;

    return blas_load(&err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hessian_factor_is_that_of_the_damped_moments),
        cmocka_unit_test(test_hessian_product_is_that_of_the_moments),
        cmocka_unit_test(test_hessian_factor_refuses_inputs_without_energy),
        cmocka_unit_test(test_hessian_shrink_is_a_mix_with_independent_inputs),
    };

    return cmocka_run_group_tests_name("hessian", tests, load_library, NULL);
}
