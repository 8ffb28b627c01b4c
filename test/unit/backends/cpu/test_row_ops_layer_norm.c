// SPDX-License-Identifier: Apache-2.0
/* Tests of LayerNorm and of activations without a gate: against float64, and every build of this machine against plain
 * loops, to the bit. */
#include "test/unit/backends/cpu/row_ops_plain.h"

static void plain_layer_norm(const float *x, const float *w, const float *bias, float eps, size_t n, float *y) {
    float sum[16] = { 0 }, mean, factor;

    for (size_t i = 0; i < n; i++)
        sum[i % 16] = sum[i % 16] + x[i];
    mean = plain_tree(sum) / (float)n;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] - mean;
    factor = 1.0f / sqrtf(plain_dot(y, y, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++) {
        const float normed = y[i] * factor, weighted = normed * w[i];

        y[i] = weighted + bias[i];
    }
}

static void exact_layer_norm(const float *x, const float *w, const float *bias, double eps, size_t n, double *y) {
    double mean = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (size_t i = 0; i < n; i++)
        y[i] = ((double)x[i] - mean) / sqrt(squares / (double)n + eps) * (double)w[i] + (double)bias[i];
}

static void test_row_ops_layer_norm(void **state) {
    float x[N_MAX], w[N_MAX], bias[N_MAX], y[N_MAX + GUARD], expected[N_MAX];
    double exact[N_MAX];

    for (size_t n = 1; n <= N_MAX; n += n < 40 ? 1 : 123) {
        fill(x, n, 3);
        for (size_t i = 0; i < n; i++)
            x[i] += 5; /* a mean that is not negligible */
        fill(w, n, 2);
        fill(bias, n, 1);
        plain_layer_norm(x, w, bias, 1e-5f, n, expected);
        exact_layer_norm(x, w, bias, 1e-5, n, exact);
        for (size_t i = 0; n > 4 && i < n; i++)
            assert_true(fabs((double)expected[i] - exact[i]) < 2e-5);
        EACH_BUILD (ops) {
            for (int in_place = 0; in_place < 2; in_place++) {
                for (size_t i = 0; i < n + GUARD; i++)
                    y[i] = untouched;
                if (in_place)
                    memcpy(y, x, n * sizeof(*y));
                ops->layer_norm(in_place ? y : x, w, bias, 1e-5f, n, y);
                check_row(ops, "layer_norm", y, expected, n);
                for (size_t i = n; i < n + GUARD; i++)
                    assert_true(same_value(y[i], untouched));
            }
        }
    }
}

/* The result is that of the gated forms with a factor of one. */
static void test_row_ops_activations(void **state) {
    float x[N_MAX], y[N_MAX + GUARD], ones[N_MAX], expected[N_MAX];

    for (size_t i = 0; i < N_MAX; i++)
        ones[i] = 1;
    for (size_t n = 1; n <= N_MAX; n += n < 40 ? 1 : 123)
        EACH_BUILD (ops) {
            for (int gelu = 0; gelu < 2; gelu++) {
                fill(x, n, 8);
                (gelu ? ops->gelu_mul : ops->silu_mul)(x, ones, n, expected);
                for (size_t i = 0; i < n + GUARD; i++)
                    y[i] = i < n ? x[i] : untouched;
                (gelu ? ops->gelu : ops->silu)(y, n);
                check_row(ops, gelu ? "gelu" : "silu", y, expected, n);
                for (size_t i = 0; i < n; i++)
                    assert_true(
                        fabs((double)y[i] - (gelu ? 0.5 * (double)x[i] *
                                                        (1 + tanh(0.79788456080286536 *
                                                                  ((double)x[i] + 0.044715 * pow((double)x[i], 3))))
                                                  : (double)x[i] / (1 + exp(-(double)x[i])))) < 2e-6);
                for (size_t i = n; i < n + GUARD; i++)
                    assert_true(same_value(y[i], untouched));
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_ops_layer_norm),
        cmocka_unit_test(test_row_ops_activations),
    };

    row_ops_begin(20261128);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
