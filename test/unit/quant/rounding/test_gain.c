// SPDX-License-Identifier: Apache-2.0
/* Tests of gain correction against its definition in double precision. */
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
#include "quant/rounding/gain.h"
#include "test/unit/quant/rounding/rounding_case.h"

static Grid grid; /* grid of the current tests */

static void case_correct(Case *c) {
    const CompensateCall call = case_call(c);

    assert_int_equal(gain_correct(&call, c->pool), 0);
}

/* Returns w H (scale q); of_weights: q is the weights themselves instead of the integers. */
static double likeness(const Case *c, size_t channel, bool of_weights) {
    const float *w = c->w + channel * c->k;
    double sum = 0;

    for (size_t i = 0; i < c->k; i++)
        for (size_t j = 0; j < c->k; j++)
            sum += (double)w[i] * c->h[i * c->k + j] *
                   (of_weights ? (double)w[j] : (double)c->scales[channel] * c->q[channel * c->k + j]);
    return sum;
}

/* The slope of rounded outputs over true ones is 1 after the correction, and not before. Widths are 1 to 8. */
static void test_gain_is_corrected(void **cmocka) {
    static const size_t widths[] = { 1, 64, 65, 200 };

    for (size_t t = 0; t < ARRAY_LEN(widths); t++) {
        bool in_reach[70];
        size_t n_off = 0, n_in_reach = 0;
        Case c;

        case_init(&c, grid, ARRAY_LEN(in_reach), widths[t], 700, 2);
        case_round(&c);
        for (size_t r = 0; r < c.n; r++) {
            const double before = likeness(&c, r, false) / likeness(&c, r, true);

            n_off += fabs(before - 1) > 1e-3;
            in_reach[r] = before > 0.51 && before < 1.99;
            n_in_reach += in_reach[r];
        }
        assert_true(n_off > c.n / 4 && n_in_reach > c.n / 2);
        case_correct(&c);
        for (size_t r = 0; r < c.n; r++)
            assert_true(!in_reach[r] || fabs(likeness(&c, r, false) / likeness(&c, r, true) - 1) <= 1e-4);
        case_deinit(&c);
    }
}

/* No scale, no energy, nothing in common with the weights, a gain beyond the bound, sums that are not finite. */
static void test_gain_leaves_alone_what_it_cannot_tell(void **cmocka) {
    float before[5];
    Case c;

    case_init(&c, grid, ARRAY_LEN(before), 100, 300, 1);
    case_round(&c);
    c.scales[0] = 0;
    memset(c.w + c.k, 0, c.k * sizeof(*c.w));
    for (size_t i = 0; i < c.k; i++)
        c.q[2 * c.k + i] = (int8_t)-c.q[2 * c.k + i];
    c.scales[3] *= 4;
    c.w[4 * c.k] = 3e38f;
    memcpy(before, c.scales, sizeof(before));
    case_correct(&c);
    assert_memory_equal(before, c.scales, sizeof(before));
    case_deinit(&c);
}

static void test_gain_bits_do_not_depend_on_threads(void **cmocka) {
    Case one, many;

    case_init(&one, grid, 200, 300, 600, 1);
    case_init(&many, grid, 200, 300, 600, 3);
    case_round(&one);
    case_round(&many);
    case_correct(&one);
    case_correct(&many);
    assert_memory_equal(one.scales, many.scales, one.n * sizeof(float));
    case_deinit(&one);
    case_deinit(&many);
}

static int load_library(void **cmocka) {
    ErrText err;

    return blas_load(&err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gain_is_corrected),
        cmocka_unit_test(test_gain_leaves_alone_what_it_cannot_tell),
        cmocka_unit_test(test_gain_bits_do_not_depend_on_threads),
    };
    int failed = 0;

    for (; grid < _GRID_N && !failed; grid++)
        failed = cmocka_run_group_tests_name(grid_name(grid), tests, load_library, NULL);
    return failed;
}
