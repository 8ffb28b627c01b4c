// SPDX-License-Identifier: Apache-2.0
/* Tests of rounding to the levels of a width, of its error, and of the search for a scale, against double-precision
 * definitions. */
#undef NDEBUG
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "quant/format/grid.h"
#include "quant/rounding/round.h"
#include "quant/rounding/rounding_error.h"
#include "quant/rounding/scale_search.h"
#include "test/unit/fixtures/model_maker.h"

#define N_MAX 9000

static float w[N_MAX];
static int8_t q[N_MAX];

static double uniform(uint64_t *random) {
    return ((double)(test_random(random) >> 11) + 0.5) * 0x1p-53;
}

enum {
    GAUSSIAN,
    LAPLACE,
    UNIFORM,
    OUTLIERS,
    N_KINDS
};

static void fill(float *x, size_t n, int kind, uint64_t *random) {
    for (size_t i = 0; i < n; i++) {
        double u = uniform(random);

        if (kind == LAPLACE)
            x[i] = (float)(u < 0.5 ? log(2 * u) : -log(2 - 2 * u));
        else if (kind == UNIFORM)
            x[i] = (float)(2 * u - 1);
        else
            x[i] = test_random_normal(random) * (kind == OUTLIERS && test_random(random) % 500 == 0 ? 30 : 1);
    }
}

static Grid grid; /* grid of the current tests */

/* Returns the unit of a RoundingError, in units of the scale. */
static int unit_of(int bits) {
    return grid_has_table(grid, bits) ? 1 : grid_factor(bits);
}

/* Finds the nearest level by trying all of grid.h's. */
static int nearest_level(double value, int bits) {
    int best = 0;
    double best_distance = INFINITY;

    for (int code = bits == 8 ? 1 : 0; code < 1 << bits; code++) {
        int level = grid_level(grid, code, bits);

        if (fabs(value - level) < best_distance) {
            best_distance = fabs(value - level);
            best = level;
        }
    }
    return best;
}

static void test_round_nearest(void **state) {
    uint64_t random = 1;

    for (int bits = 1; bits <= 8; bits++)
        for (int repeat = 0; repeat < 20; repeat++) {
            const float scale = ldexpf((float)(0.5 + uniform(&random)), (int)(test_random(&random) % 60) - 30);

            for (size_t i = 0; i < 500; i++)
                w[i] = test_random_normal(&random) * scale * (float)grid_max(grid, bits) * 0.5f;
            round_channel(w, 500, grid, bits, scale, q);
            for (size_t i = 0; i < 500; i++) {
                double value = (double)w[i] / (double)scale;
                int nearest = nearest_level(value, bits);

                assert_true(abs(q[i]) <= grid_max(grid, bits));
                assert_int_equal(grid_level(grid, grid_code(grid, q[i], bits), bits), q[i]);
                if (q[i] != nearest) /* only if the two are equally near */
                    assert_true(fabs(fabs(value - q[i]) - fabs(value - nearest)) < 1e-4);
            }
        }
}

/* Ties on the uniform grid. */
static void test_round_ties(void **state) {
    static const float ties[] = { 2, -2, 4, -4, 6, -6, 0, -0.0f, 1e-30f, -1e-30f, 1e30f, -1e30f };
    static const int8_t odd[] = { 3, -3, 5, -5, 7, -7, 1, 1, 1, -1, 7, -7 };
    static const float halves[] = { 0.5f, -0.5f, 1.5f, -2.5f, 126.5f, 127.5f, 1e30f, -1e30f, 0, -0.0f, 0.49f };
    static const int8_t whole[] = { 1, -1, 2, -3, 127, 127, 127, -127, 0, 0, 0 };

    round_channel(ties, 12, grid, 3, 1, q);
    assert_memory_equal(q, odd, 12);
    round_channel(halves, 11, grid, 8, 1, q);
    assert_memory_equal(q, whole, 11);
    for (int bits = 1; bits <= 7; bits++) { /* a channel of zeros has levels, too */
        round_channel(ties, 12, grid, bits, 0, q);
        for (size_t i = 0; i < 12; i++)
            assert_int_equal(q[i], ties[i] < 0 ? -1 : 1);
    }
    round_channel(ties, 12, grid, 8, 0, q);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(q[i], 0);
}

/* Returns the sum of (w - scale level)^2 in double precision. */
static double error_of(size_t n, int bits, float scale) {
    double sum = 0;

    round_channel(w, n, grid, bits, scale, q);
    for (size_t i = 0; i < n; i++) {
        double e = (double)w[i] - (double)scale * q[i];

        sum += e * e;
    }
    return sum;
}

static void test_rounding_error_value(void **state) {
    uint64_t random = 2;

    for (int bits = 1; bits <= 8; bits++) {
        const size_t n = 1 + test_random(&random) % N_MAX;
        const float scale = (float)(0.3 + uniform(&random)) * 3 / (float)grid_max(grid, bits);
        const int unit = unit_of(bits);
        const double distance = (double)scale * unit;
        RoundingSums sums;
        double error = 0, tr = 0, rr = 0, beyond = 0;

        fill(w, n, GAUSSIAN, &random);
        round_channel(w, n, grid, bits, scale, q);
        for (size_t i = 0; i < n; i++) {
            double t = fabs((double)w[i]) / distance, r = abs(q[i]) / (double)unit;

            error += (t - r) * (t - r);
            if (grid_has_table(grid, bits) && t > grid_max(grid, bits))
                beyond += (t - r) * (t - r);
            tr += t * r;
            rr += r * r;
        }
        rounding_error_select(0)(&(RoundingChannel){ w, n, grid, bits }, 1 / scale, true, &sums);
        assert_true(fabs(sums.error - error) <= 1e-4 * error + 1e-9);
        assert_true(fabs(sums.tr - tr) <= 1e-5 * tr + 1e-9);
        assert_true(fabs(sums.rr - rr) <= 1e-5 * rr + 1e-9);
        assert_true(fabs(sums.beyond - beyond) <= 1e-4 * beyond + 1e-9);
    }
}

/* Every build, every case, lengths around the 16 lanes and the 1024 of a block: the same bits. */
static void test_rounding_error_bits(void **state) {
    static const size_t lengths[] = { 0, 1, 15, 16, 17, 31, 100, 1023, 1024, 1025, 1040, 2048, 8960 };
    uint64_t random = 3;
    size_t n_compared = 0;

    fill(w, N_MAX, OUTLIERS, &random);
    for (size_t k = 0; k < rounding_error_n(); k++) {
        const RoundingErrorKernel *kernel = rounding_error_at(k);

        if (kernel->need & ~cpu_features()) {
            print_message("%s: not on this machine\n", kernel->name);
            continue;
        }
        for (int bits = 1; bits <= 8; bits++)
            for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
                for (int c = 0; c < 2; c++) {
                    RoundingSums sums, reference;

                    const RoundingChannel channel = { w + 3, lengths[l], grid, bits };

                    kernel->fn(&channel, 31.7f, c, &sums);
                    rounding_error_at(rounding_error_n() - 1)->fn(&channel, 31.7f, c, &reference);
                    assert_memory_equal(&sums, &reference, sizeof(sums));
                    n_compared++;
                }
    }
    assert_true(n_compared >= 8 * ARRAY_LEN(lengths) * 2);
    assert_ptr_equal(rounding_error_select(0), rounding_error_at(rounding_error_n() - 1)->fn);
}

/* Returns the least error over 2000 scales. */
static double least_error(size_t n, int bits) {
    float largest;
    double least = INFINITY;

    assert_true(scale_of_largest(w, n, grid, bits, &largest));
    for (int i = 1; i <= 2000; i++) {
        double error = error_of(n, bits, largest * (float)i / 1900);

        least = MIN(error, least);
    }
    return least;
}

static void check_search(size_t n, int bits, double slack) {
    float scale, largest;
    double error;

    assert_true(scale_of_largest(w, n, grid, bits, &largest));
    assert_true(scale_search(w, n, grid, bits, &scale));
    error = error_of(n, bits, scale);
    assert_true(error <= error_of(n, bits, largest) * (1 + 1e-5));
    assert_true(error <= least_error(n, bits) * (1 + slack));
}

/* At high widths the error has deep minima by chance of the weights, which 2000 tries find and 12 do not. */
static void test_search_finds_least(void **state) {
    static const double slack[9] = { 0, 1e-5, 0.002, 0.01, 0.02, 0.03, 0.06, 0.12, 0.15 };
    uint64_t random = 4;

    for (int kind = 0; kind < N_KINDS; kind++)
        for (int bits = 1; bits <= 8; bits++) {
            fill(w, 1000, kind, &random);
            check_search(1000, bits, slack[bits]);
        }
}

static void test_search_one_bit(void **state) {
    uint64_t random = 5;
    float scale;
    double sum = 0;

    fill(w, 777, LAPLACE, &random);
    for (size_t i = 0; i < 777; i++)
        sum += fabs((double)w[i]);
    assert_true(scale_search(w, 777, grid, 1, &scale));
    assert_true(fabs((double)scale - sum / 777) < 1e-6 * (double)scale);
}

/* A channel that lies on the grid is found without error; powers of two change only the scale. */
static void test_search_exact(void **state) {
    uint64_t random = 6;

    for (int bits = 1; bits <= 8; bits++) {
        float scale, shifted, scaled[600];

        for (size_t i = 0; i < 600; i++)
            w[i] = 0.125f * (float)nearest_level((2 * uniform(&random) - 1) * 127, bits);
        w[0] = 0.125f * (float)grid_max(grid, bits);
        assert_true(scale_search(w, 600, grid, bits, &scale));
        assert_true(scale == 0.125f);
        fill(w, 600, GAUSSIAN, &random);
        assert_true(scale_search(w, 600, grid, bits, &scale));
        for (int shift = -60; shift <= 100; shift += 20) {
            for (size_t i = 0; i < 600; i++)
                scaled[i] = ldexpf(w[i], shift);
            assert_true(scale_search(scaled, 600, grid, bits, &shifted));
            assert_true(shifted == ldexpf(scale, shift));
        }
    }
}

static void test_search_edges(void **state) {
    static const float zeros[3] = { 0, -0.0f, 0 }, tiny[3] = { 1e-40f, -1e-42f, FLT_MIN }, one[1] = { -3 };
    static const float huge[3] = { FLT_MAX, -FLT_MAX, FLT_MAX / 2 }, equal[5] = { 2, 2, 2, 2, 2 };
    static const float bad[3][2] = { { 1, NAN }, { -INFINITY, 1 }, { INFINITY, NAN } };

    for (int bits = 1; bits <= 8; bits++) {
        float scale = 9;

        assert_true(scale_search(zeros, 3, grid, bits, &scale) && scale == 0);
        assert_true(scale_search(tiny, 3, grid, bits, &scale) && scale == 0);
        assert_true(scale_search(zeros, 0, grid, bits, &scale) && scale == 0);
        assert_true(scale_of_largest(tiny, 3, grid, bits, &scale) && scale == 0);
        assert_true(scale_search(one, 1, grid, bits, &scale));
        round_channel(one, 1, grid, bits, scale, q);
        assert_true(fabsf(scale * (float)q[0] + 3) < 1e-6f);
        assert_true(scale_search(equal, 5, grid, bits, &scale));
        round_channel(equal, 5, grid, bits, scale, q);
        for (size_t i = 0; i < 5; i++)
            assert_true(fabsf(scale * (float)q[i] - 2) < 1e-6f);
        assert_true(scale_search(huge, 3, grid, bits, &scale) && isfinite(scale) && scale > 0);
        round_channel(huge, 3, grid, bits, scale, q);
        assert_true(q[0] > 0 && q[1] == -q[0] && q[2] > 0);
        assert_true(scale_of_largest(huge, 3, grid, bits, &scale) && scale == FLT_MAX / (float)grid_max(grid, bits));
        scale = 9;
        for (size_t i = 0; i < 3; i++) {
            assert_false(scale_search(bad[i], 2, grid, bits, &scale));
            assert_false(scale_of_largest(bad[i], 2, grid, bits, &scale));
        }
        assert_true(scale == 9);
    }
}

/* Arbitrary bits of the floats: an answer with levels of the width, or a refusal. */
static void test_search_any_bits(void **state) {
    uint64_t random = 8;

    for (int repeat = 0; repeat < 4000; repeat++) {
        const size_t n = 1 + test_random(&random) % 40;
        const int bits = 1 + (int)(test_random(&random) % 8), shift = (int)(test_random(&random) % 24);
        bool finite = true;
        float scale;

        for (size_t i = 0; i < n; i++) {
            uint32_t pattern = (uint32_t)test_random(&random);

            if (repeat % 2)
                pattern = (pattern & 0x807fffff) | (127u + (uint32_t)shift) << 23;
            memcpy(w + i, &pattern, 4);
            finite &= !!isfinite(w[i]);
        }
        assert_int_equal(scale_search(w, n, grid, bits, &scale), finite);
        if (!finite)
            continue;
        assert_true(scale >= 0 && isfinite(scale));
        round_channel(w, n, grid, bits, scale, q);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(grid_level(grid, grid_code(grid, q[i], bits), bits), q[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_nearest),       cmocka_unit_test(test_rounding_error_value),
        cmocka_unit_test(test_rounding_error_bits), cmocka_unit_test(test_search_finds_least),
        cmocka_unit_test(test_search_one_bit),      cmocka_unit_test(test_search_exact),
        cmocka_unit_test(test_search_edges),        cmocka_unit_test(test_search_any_bits),
    };
    const struct CMUnitTest uniform_tests[] = { cmocka_unit_test(test_round_ties) };
    int failed = cmocka_run_group_tests(uniform_tests, NULL, NULL);

    for (; grid < _GRID_N && !failed; grid++)
        failed = cmocka_run_group_tests_name(grid_name(grid), tests, NULL, NULL);
    return failed;
}
