// SPDX-License-Identifier: Apache-2.0
/* Tests of exp of a row: the error against double, and every build of this machine against a plain loop, to the bit. */
#include "backends/numeric/exp_row.h"
#include "base/min_max.h"
#include "test/unit/backends/cpu/row_ops_plain.h"

#define EACH_BUILD_OF_EXP(build)                                                                                       \
    for (size_t build_ = 0; build_ < exp_row_n(); build_++)                                                            \
        for (const ExpRow *build = exp_row_at(build_); build && !(build->need & ~cpu_features()); build = NULL)

/* Tests every 211th float between the ends, and the neighbourhoods of the ends. */
static void test_exp_row_error(void **state) {
    const ExpRow *best = exp_row_select(cpu_features());
    double worst = 0;
    float x[N_MAX], y[N_MAX], expected;
    uint32_t bits = 0;

    for (bool more = true; more;) {
        size_t n = 0;

        for (; n < N_MAX && more; bits += 211) {
            if (bits > 0x7f800000 + 211) {
                more = false;
                break;
            }
            x[n++] = f32_from_bits(bits <= 0x7f7fffff ? bits : 0x7f7fffff);
            if (n < N_MAX)
                x[n++] = -f32_from_bits(bits <= 0x7f7fffff ? bits : 0x7f7fffff);
        }
        best->exp(x, n, y);
        for (size_t i = 0; i < n; i++) {
            double exact = exp((double)x[i]);

            if (exact > 0x1.ffffffp127) {
                assert_true(isinf(y[i]) && y[i] > 0);
            } else if (exact <= (double)FLT_MAX) {
                double error = fabs((double)y[i] - exact) / ulp_of(exact);

                worst = MAX(error, worst);
            }
        }
    }
    printf("exp: greatest error %.3f ulp (%s)\n", worst, best->name);
    assert_true(worst < 2);
    EACH_BUILD_OF_EXP (build) {
        for (int round = 0; round < 400; round++) {
            for (size_t i = 0; i < N_MAX; i++)
                x[i] = round % 2 ? draw_float(110) : f32_from_bits(draw());
            build->exp(x, N_MAX - (size_t)round % 17, y);
            for (size_t i = 0; i < N_MAX - (size_t)round % 17; i++) {
                expected = plain_exp(x[i]);
                if (!same_value(y[i], expected))
                    fail_msg("%s exp(%a) is %a, expected %a", build->name, (double)x[i], (double)y[i],
                             (double)expected);
            }
        }
    }
}

static void test_exp_row_special(void **state) {
    static const float x[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, -104.5f, 88.73f, -FLT_MAX, FLT_MAX };
    float y[ARRAY_LEN(x)];

    EACH_BUILD_OF_EXP (build) {
        build->exp(x, ARRAY_LEN(x), y);
        assert_true(y[0] == 1 && y[1] == 1 && y[2] == INFINITY && y[3] == 0 && isnan(y[4]) && y[5] == 0 &&
                    y[6] == INFINITY);
        assert_true(y[7] == 0 && !signbit(y[7]) && y[8] == INFINITY);
        memcpy(y, x, sizeof(y)); /* in place */
        build->exp(y, 1, y);
        assert_true(y[0] == 1);
    }
}

static void test_exp_row_select(void **state) {
    assert_int_equal(exp_row_at(exp_row_n() - 1)->need, 0);
    assert_ptr_equal(exp_row_select(0), exp_row_at(exp_row_n() - 1));
    assert_ptr_equal(exp_row_select(CPU_ALL), exp_row_at(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_row_error),
        cmocka_unit_test(test_exp_row_special),
        cmocka_unit_test(test_exp_row_select),
    };
    row_ops_begin(20240608);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
