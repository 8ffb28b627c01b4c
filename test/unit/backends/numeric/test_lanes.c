// SPDX-License-Identifier: Apache-2.0
/* Tests of the lanes of a build without FMA instructions (this file is compiled without any) against the C library's
 * fmaf, on numbers whose sums are hard to round. */
#include "backends/numeric/lanes.h"
#include "test/unit/backends/cpu/row_ops_plain.h"

static void check_fma(const float *a, const float *b, const float *c) {
    float actual[N_LANES];

    lanes_store(actual, lanes_fma(lanes_load(a), lanes_load(b), lanes_load(c)));
    for (size_t i = 0; i < N_LANES; i++)
        if (!same_value(actual[i], fmaf(a[i], b[i], c[i])))
            fail_msg("fma(%a, %a, %a) is %a, expected %a", (double)a[i], (double)b[i], (double)c[i], (double)actual[i],
                     (double)fmaf(a[i], b[i], c[i]));
}

/* Arbitrary bits, infinities and NaN among them. */
static void test_lanes_fma_any(void **state) {
    float x[3][N_LANES];

    for (int round = 0; round < 200000; round++) {
        for (size_t i = 0; i < 3 * N_LANES; i++)
            x[i / N_LANES][i % N_LANES] = f32_from_bits(draw());
        check_fma(x[0], x[1], x[2]);
    }
}

/* Numbers with few bits, and exponents that put the product from far above the addend to far below it. Sums are
 * half-way between two floats, or a bit of double away from it; rounding such a sum twice is wrong. */
static void test_lanes_fma_ties(void **state) {
    float x[3][N_LANES];
    size_t n_twice = 0;

    for (int round = 0; round < 300000; round++) {
        for (size_t i = 0; i < N_LANES; i++) {
            const int apart = (int)(draw() % 110) - 55;

            x[0][i] = ldexpf((float)(draw() % 4096 * 4097 + draw() % 3 + 1), (int)(draw() % 20) - 10);
            x[1][i] = ldexpf((float)(int)((1u << draw() % 24) + draw() % 3) - 1, -12);
            x[2][i] = ldexpf((float)(int)(draw() % 512) - 256, apart);
            n_twice += (float)((double)x[0][i] * (double)x[1][i] + (double)x[2][i]) != fmaf(x[0][i], x[1][i], x[2][i]);
        }
        check_fma(x[0], x[1], x[2]);
    }
    printf("%zu sums that rounding twice gets wrong\n", n_twice);
    assert_true(n_twice > 100);
}

/* Results around the smallest floats. */
static void test_lanes_fma_subnormal(void **state) {
    float x[3][N_LANES];

    for (int round = 0; round < 200000; round++) {
        for (size_t i = 0; i < N_LANES; i++) {
            x[0][i] = ldexpf(draw_float(1), -60 - (int)(draw() % 12));
            x[1][i] = ldexpf(draw_float(1), -60 - (int)(draw() % 20));
            x[2][i] = f32_from_bits((draw() & 0x80000000) | draw() >> (8 + draw() % 23));
        }
        check_fma(x[0], x[1], x[2]);
    }
}

static void test_lanes_horizontal_max(void **state) {
    float x[N_LANES];

    for (size_t at = 0; at < N_LANES; at++) {
        for (size_t i = 0; i < N_LANES; i++)
            x[i] = i == at ? -1 : -INFINITY;
        assert_true(lanes_horizontal_max(lanes_load(x)) == -1);
        for (size_t i = 0; i < N_LANES; i++)
            x[i] = i == at ? 3 : draw_float(3);
        assert_true(lanes_horizontal_max(lanes_load(x)) == 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_fma_any),
        cmocka_unit_test(test_lanes_fma_ties),
        cmocka_unit_test(test_lanes_fma_subnormal),
        cmocka_unit_test(test_lanes_horizontal_max),
    };

    row_ops_begin(20240611);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
