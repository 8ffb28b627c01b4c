// SPDX-License-Identifier: Apache-2.0
/* Tests of a channel's relative error: the paper's estimate, the measured error, and the bound between them. */
#undef NDEBUG
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quant/format/grid.h"
#include "quant/relative_error.h"
#include "quant/rounding/round.h"
#include "quant/rounding/scale_search.h"
#include "test/unit/fixtures/model_maker.h"

/* --- references for the estimate
 * ------------------------------------------------------------------------------------ */

enum {
    N_LANES = 16
};

/* Returns (distance of two levels / 2)^2 over the paper's max^2 / 4^B: (2^B / (2^B - 1))^2 up to 7 bits, (128 / 127)^2
 * at 8. */
static double grid_ratio(int bits) {
    double ratio = ldexp(grid_factor(bits), bits - 1) / grid_max(GRID_UNIFORM, bits);

    return ratio * ratio;
}

/**
 * relative_error_bound() - upper bound of relative_error_measured() with the largest weight's scale or a better
 *
 * Let E = W - Wq and x = |E|^2 / |W|^2. For any multiple c Wq the distance from W is at least |W| sin(W, Wq), so
 * sin^2 <= x (c = 1). No weight changes its sign, so cos >= 0 and, when x <= 1,
 *     1 - cos = 1 - sqrt(1 - sin^2) <= 1 - sqrt(1 - x) <= x.
 * With the scale of the largest weight every |E_j| is at most half the distance d of two levels, which is
 * d / 2 = max / (2^B - 1) up to 7 bits, max / 254 at 8. So x <= (d / 2)^2 / E[W^2] = RE(W, B) g with
 * g = (2^B / (2^B - 1))^2, or (128 / 127)^2.
 * A searched scale only lowers |E|^2. The bound for every channel, whatever its distribution, is:
 *     1 - cos <= 1 - sqrt(1 - x), x = min(1, RE(W, B) g)
 *
 * Errors that are uniform in +-d / 2 give a third of (d / 2)^2 for E[E^2], and 1 - cos is about half of x. The measured
 * average with the scale of the largest weight is thus RE(W, B) g / 6 (relative_error_expected()): within 20 % from 4
 * bits on for Gaussian, Laplace and uniform channels of 2048. Fewer bits have too few levels for a uniform error.
 *
 * The paper drops the constant g / 6. Allocation compares RE at different widths of different channels, so a common
 * constant changes nothing. The factor g varies by 4 from 1 bit to 8; keeping the paper's form is a choice.
 */
static double relative_error_bound(double peak, int bits) {
    double x = relative_error(peak, bits) * grid_ratio(bits);

    return x < 1 ? x / (1 + sqrt(1 - x)) : 1;
}

static double relative_error_expected(double peak, int bits) {
    return relative_error(peak, bits) * grid_ratio(bits) / 6;
}

/**
 * relative_error_measured() - 1 - cos(w, q)
 * @w: f32[n], finite
 * @q: int8[n] levels, all of one width
 *
 * By the distance from the nearest multiple of q: with r = w - c q, c = <w, q> / <q, q>, sin^2 = |r|^2 / |w|^2. The
 * difference 1 - cos would lose its digits at 8 bits, where it is near 1e-5. Fixed order of sums. Thread: any.
 *
 * Return: 0..2; 0 when w or q is all zero.
 */
static double relative_error_measured(const float *w, const int8_t *q, size_t n) {
    double wq[N_LANES] = { 0 }, qq[N_LANES] = { 0 }, ww[N_LANES] = { 0 }, rr[N_LANES] = { 0 }, c, sin2;

    for (size_t i = 0; i < n; i++) {
        wq[i % N_LANES] += (double)w[i] * q[i];
        qq[i % N_LANES] += (double)q[i] * q[i];
        ww[i % N_LANES] += (double)w[i] * (double)w[i];
    }
    for (size_t j = 1; j < N_LANES; j++) {
        wq[0] += wq[j];
        qq[0] += qq[j];
        ww[0] += ww[j];
    }
    if (!(qq[0] > 0) || !(ww[0] > 0))
        return 0;
    c = wq[0] / qq[0];
    for (size_t i = 0; i < n; i++) {
        double r = (double)w[i] - c * q[i];

        rr[i % N_LANES] += r * r;
    }
    for (size_t j = 1; j < N_LANES; j++)
        rr[0] += rr[j];
    sin2 = rr[0] < ww[0] ? rr[0] / ww[0] : 1;
    return wq[0] >= 0 ? sin2 / (1 + sqrt(1 - sin2)) : 1 + sqrt(1 - sin2);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

#define N_MAX 4096

static float w[N_MAX];
static int8_t q[N_MAX];

enum {
    GAUSSIAN,
    LAPLACE,
    UNIFORM,
    OUTLIERS,
    SPARSE,
    N_KINDS
};

static double uniform(uint64_t *random) {
    return ((double)(test_random(random) >> 11) + 0.5) * 0x1p-53;
}

/* Includes the tails, which decide the largest weight. */
static float gaussian(uint64_t *random) {
    double radius = sqrt(-2 * log(uniform(random)));

    return (float)(radius * cos(6.283185307179586 * uniform(random)));
}

static void fill(float *x, size_t n, int kind, uint64_t *random) {
    for (size_t i = 0; i < n; i++) {
        double u = uniform(random);

        if (kind == LAPLACE)
            x[i] = (float)(u < 0.5 ? log(2 * u) : -log(2 - 2 * u));
        else if (kind == UNIFORM)
            x[i] = (float)(2 * u - 1);
        else if (kind == SPARSE)
            x[i] = u < 0.9 ? 0 : gaussian(random);
        else
            x[i] = gaussian(random) * (kind == OUTLIERS && u < 0.01 ? 40 : 1);
    }
}

static double measure(size_t n, int bits, bool searched) {
    float scale;

    assert_true(searched ? scale_search(w, n, GRID_UNIFORM, bits, &scale)
                         : scale_of_largest(w, n, GRID_UNIFORM, bits, &scale));
    round_channel(w, n, GRID_UNIFORM, bits, scale, q);
    return relative_error_measured(w, q, n);
}

static void test_relative_error_formula(void **state) {
    const float x[4] = { 1, -3, 2, 0 };
    double peak;

    assert_true(relative_error_peak(x, 4, &peak));
    assert_true(fabs(peak - 9 / 3.5) < 1e-15);
    for (int bits = 1; bits <= 8; bits++)
        assert_true(fabs(relative_error(peak, bits) - pow(4, -bits) * 9 / 3.5) < 1e-15);
    for (int bits = 1; bits < 8; bits++) /* the gain of a bit is three quarters of the error */
        assert_true(relative_error(peak, bits) - relative_error(peak, bits + 1) == 0.75 * relative_error(peak, bits));
}

/* Any channel, any width, the largest weight's scale or a searched one. */
static void test_relative_error_bound(void **state) {
    uint64_t random = 1;

    for (int repeat = 0; repeat < 300; repeat++)
        for (int bits = 1; bits <= 8; bits++) {
            const size_t n = 1 + test_random(&random) % (repeat % 2 ? 8 : 1000);
            double peak;

            fill(w, n, (int)(test_random(&random) % N_KINDS), &random);
            assert_true(relative_error_peak(w, n, &peak));
            assert_true(peak == 0 || (peak > 0.999999 && peak < (double)n * 1.000001));
            assert_true(measure(n, bits, false) <= relative_error_bound(peak, bits) * 1.00001 + 1e-12);
            assert_true(measure(n, bits, true) <= relative_error_bound(peak, bits) * 1.00001 + 1e-12);
            assert_true(relative_error_bound(peak, bits) <= 1);
        }
}

/* From 4 bits on the estimate is within 20 %. */
static void test_relative_error_expected(void **state) {
    uint64_t random = 2;

    for (int kind = GAUSSIAN; kind <= UNIFORM; kind++)
        for (int bits = 4; bits <= 8; bits++)
            for (int repeat = 0; repeat < 20; repeat++) {
                double peak, ratio;

                fill(w, 2048, kind, &random);
                assert_true(relative_error_peak(w, 2048, &peak));
                ratio = measure(2048, bits, false) / relative_error_expected(peak, bits);
                assert_true(ratio > 0.8 && ratio < 1.2);
            }
}

/* Mean over channels of 4096 at 1..8 bits: searched scales beside those of the largest weight. The grid is
 * the uniform quantizer whose least squared error for a Gaussian is known for 2 to 32 levels (J. Max, Quantizing for
 * minimum distortion, IRE Transactions on Information Theory, 1960, table II); there 1 - cos = 1 - sqrt(1 - error). */
static void test_relative_error_table(void **state) {
    static const double max_table[6] = { 0, 0.3634, 0.1188, 0.03744, 0.01154, 0.003495 };
    uint64_t random = 3;

    for (int kind = GAUSSIAN; kind <= LAPLACE; kind++)
        for (int bits = 1; bits <= 8; bits++) {
            double searched = 0, plain = 0, expected = 0;

            for (int repeat = 0; repeat < 20; repeat++) {
                double peak;

                fill(w, N_MAX, kind, &random);
                assert_true(relative_error_peak(w, N_MAX, &peak));
                expected += relative_error_expected(peak, bits) / 20;
                plain += measure(N_MAX, bits, false) / 20;
                searched += measure(N_MAX, bits, true) / 20;
            }
            print_message("%s, %d bits: RE %.6f searched, %.6f of the largest weight, %.6f expected of it\n",
                          kind == GAUSSIAN ? "Gaussian" : "Laplace", bits, searched, plain, expected);
            assert_true(searched <= plain * 1.02);
            if (kind == GAUSSIAN && bits <= 5)
                assert_true(fabs(searched / (1 - sqrt(1 - max_table[bits])) - 1) < 0.05);
        }
}

static void test_relative_error_measured(void **state) {
    const float x[4] = { 1, -2, 3, 0.5f }, zeros[4] = { 0 };
    const int8_t same[4] = { 2, -4, 6, 1 }, opposite[4] = { -2, 4, -6, -1 }, other[4] = { 1, -1, 1, 1 };
    const int8_t none[4] = { 0 }, across[4] = { 2, 1, 0, 0 };

    assert_true(relative_error_measured(x, same, 4) < 1e-15);
    assert_true(fabs(relative_error_measured(x, opposite, 4) - 2) < 1e-15);
    assert_true(fabs(relative_error_measured(x, across, 4) - 1) < 1e-15);
    assert_true(fabs(relative_error_measured(x, other, 4) - (1 - 6.5 / sqrt(14.25 * 4))) < 1e-15);
    assert_true(relative_error_measured(zeros, other, 4) == 0);
    assert_true(relative_error_measured(x, none, 4) == 0);
}

static void test_relative_error_edges(void **state) {
    static const float zeros[2] = { 0, -0.0f }, tiny[2] = { 1e-42f, 1e-44f }, one[1] = { -5 }, huge[2] = { FLT_MAX, 1 };
    static const float equal[3] = { 2, -2, 2 }, bad[2] = { 1, NAN }, infinite[2] = { INFINITY, 1 };
    double peak = 9;

    assert_true(relative_error_peak(zeros, 2, &peak) && peak == 0);
    assert_true(relative_error_peak(tiny, 2, &peak) && peak == 0);
    assert_true(relative_error_peak(one, 1, &peak) && peak == 1);
    assert_true(relative_error_peak(equal, 3, &peak) && peak == 1);
    assert_true(relative_error_peak(huge, 2, &peak) && fabs(peak - 2) < 1e-12);
    peak = 9;
    assert_false(relative_error_peak(bad, 2, &peak));
    assert_false(relative_error_peak(infinite, 2, &peak));
    assert_true(peak == 9);
    for (int bits = 1; bits <= 8; bits++) {
        assert_true(relative_error(0, bits) == 0 && relative_error_bound(0, bits) == 0);
        assert_true(relative_error_bound(1e9, bits) <= 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relative_error_formula),  cmocka_unit_test(test_relative_error_bound),
        cmocka_unit_test(test_relative_error_expected), cmocka_unit_test(test_relative_error_table),
        cmocka_unit_test(test_relative_error_measured), cmocka_unit_test(test_relative_error_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
