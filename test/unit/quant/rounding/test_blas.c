// SPDX-License-Identifier: Apache-2.0
/* Tests of OpenBLAS, or the loops that replace it (WITH_OPENBLAS=no), against sums in double precision. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/rounding/blas.h"

enum {
    M = 19,
    N = 150, /* more than a block, and not a multiple of one */
    K = 131,
    SIDE = 160,
    STRIDE = SIDE + 5,
};

static uint32_t seed;

static float next_value(void) {
    seed = seed * 1664525 + 1013904223;
    return (float)(int32_t)seed / (float)INT32_MAX;
}

static float *values(size_t n) {
    float *x = malloc(n * sizeof(*x));

    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = next_value();
    return x;
}

static int setup(void **state) {
    ErrText err = { 0 };

    seed = 7;
    return blas_load(&err);
}

static void check_product(bool transpose_a, bool transpose_b, float alpha, float beta) {
    float *a = values(SIDE * STRIDE), *b = values(SIDE * STRIDE), *c = values(M * STRIDE), *before = values(M * STRIDE);

    if (beta == 0)
        c[3] = NAN; /* previous content does not matter */
    memcpy(before, c, M * STRIDE * sizeof(*c));
    blas_product(&(BlasProduct){ .m = M,
                                 .n = N,
                                 .k = K,
                                 .transpose_a = transpose_a,
                                 .transpose_b = transpose_b,
                                 .alpha = alpha,
                                 .beta = beta,
                                 .a = a,
                                 .a_stride = STRIDE,
                                 .b = b,
                                 .b_stride = STRIDE,
                                 .c = c,
                                 .c_stride = STRIDE });
    for (size_t row = 0; row < M; row++)
        for (size_t i = 0; i < STRIDE; i++) {
            double sum = 0;

            for (size_t k = 0; k < K && i < N; k++)
                sum += (double)a[transpose_a ? k * STRIDE + row : row * STRIDE + k] *
                       (double)b[transpose_b ? i * STRIDE + k : k * STRIDE + i];
            if (i >= N) /* outside the result */
                assert_memory_equal(c + row * STRIDE + i, before + row * STRIDE + i, sizeof(*c));
            else
                assert_true(fabs((double)alpha * sum +
                                 (beta == 0 ? 0 : (double)beta * (double)before[row * STRIDE + i]) -
                                 (double)c[row * STRIDE + i]) < 1e-4);
        }
    free(a);
    free(b);
    free(c);
    free(before);
}

static void test_blas_product(void **state) {
    for (int i = 0; i < 4; i++) {
        check_product(i & 1, i & 2, 1, 0);
        check_product(i & 1, i & 2, -1, 1);
        check_product(i & 1, i & 2, 0.5F, -2);
    }
}

/* Makes a matrix that has a Cholesky factor: x x^T + SIDE. */
static float *positive(void) {
    float *x = values(SIDE * STRIDE), *a = calloc(SIDE * STRIDE, sizeof(*a));

    assert_non_null(a);
    for (size_t i = 0; i < SIDE; i++)
        for (size_t j = 0; j < SIDE; j++) {
            for (size_t k = 0; k < SIDE; k++)
                a[i * STRIDE + j] += x[i * STRIDE + k] * x[j * STRIDE + k];
            if (i == j)
                a[i * STRIDE + j] += SIDE;
        }
    free(x);
    return a;
}

static void test_blas_cholesky_and_solutions(void **state) {
    float *a = positive(), *l = malloc(SIDE * STRIDE * sizeof(*l)), *b = values(M * STRIDE),
          *x = malloc(M * STRIDE * sizeof(*x));

    assert_true(l && x);
    memcpy(l, a, SIDE * STRIDE * sizeof(*l));
    assert_true(blas_cholesky(l, SIDE, STRIDE));
    for (size_t i = 0; i < SIDE; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;

            for (size_t k = 0; k <= j; k++)
                sum += (double)l[i * STRIDE + k] * (double)l[j * STRIDE + k];
            assert_true(fabs(sum - (double)a[i * STRIDE + j]) < 1e-2);
        }
    for (int back = 0; back < 2; back++) { /* x l^T = b, x l = b */
        memcpy(x, b, M * STRIDE * sizeof(*x));
        (back ? blas_solve_lower_back : blas_solve_lower)(l, STRIDE, x, M, SIDE, STRIDE);
        for (size_t row = 0; row < M; row++)
            for (size_t i = 0; i < SIDE; i++) {
                double sum = 0;

                for (size_t k = back ? i : 0; k < (back ? SIDE : i + 1); k++)
                    sum += (double)x[row * STRIDE + k] * (double)l[back ? k * STRIDE + i : i * STRIDE + k];
                assert_true(fabs(sum - (double)b[row * STRIDE + i]) < 1e-4);
            }
    }
    free(a);
    free(l);
    free(b);
    free(x);
}

static void test_blas_not_positive(void **state) {
    float *a = positive();

    a[80 * STRIDE + 80] = -1;
    assert_false(blas_cholesky(a, SIDE, STRIDE));
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blas_product),
        cmocka_unit_test(test_blas_cholesky_and_solutions),
        cmocka_unit_test(test_blas_not_positive),
    };

    return cmocka_run_group_tests_name("blas", tests, setup, NULL);
}
