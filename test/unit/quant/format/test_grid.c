// SPDX-License-Identifier: Apache-2.0
/* Tests of the normal grid's levels: the optimum for a normal distribution, found again here by dynamic programming;
 * codes, and the table of nearest levels. */
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quant/format/grid.h"

#define TOP 127

/* --- least squared error ------------------------------------------------------------------------------------------ */

/* Integrals of 1, x and x^2 under the normal density from a to infinity. */
typedef struct Tail {
    double mass, first, second;
} Tail;

static Tail tail_from(double a) {
    const double density = exp(-a * a / 2) / sqrt(2 * acos(-1));
    const double mass = erfc(a / sqrt(2)) / 2;

    return (Tail){ mass, density, a * density + mass };
}

/* Tails by half levels, at a standard deviation of 1 / unit levels. */
static Tail tails[2 * TOP + 1];

static void make_tails(double unit) {
    for (int i = 0; i <= 2 * TOP; i++)
        tails[i] = tail_from(i * unit / 2);
}

/* Returns the squared error of the weights on both sides from half level `from` up (to `to`, unless it is 0) that
 * become `level`. */
static double cell_error(int level, int from, int to, double unit) {
    const Tail none = { 0, 0, 0 }, *upper = to ? &tails[to] : &none;
    const double value = level * unit, mass = tails[from].mass - upper->mass;

    return 2 *
           (tails[from].second - upper->second - 2 * value * (tails[from].first - upper->first) + value * value * mass);
}

/* Returns the error of rising positive levels and their negatives. */
static double error_of(const int8_t *levels, int n, double unit) {
    double error = 0;

    make_tails(unit);
    for (int i = 0; i < n; i++)
        error +=
            cell_error(levels[i], i ? levels[i - 1] + levels[i] : 0, i + 1 < n ? levels[i] + levels[i + 1] : 0, unit);
    return error;
}

/* Returns the least error of any n positive levels and their negatives: least[i][l] is the error of the weights up to
 * level l when l is the i-th level. */
static double least_error(int n, double unit) {
    static double least[2][TOP + 1], between[TOP + 1][TOP + 1];
    double best = INFINITY;

    make_tails(unit);
    for (int low = 1; low <= TOP; low++)
        for (int high = low + 1; high <= TOP; high++)
            between[low][high] =
                cell_error(low, 2 * low, low + high, unit) + cell_error(high, low + high, 2 * high, unit);
    for (int level = 1; level <= TOP; level++)
        least[0][level] = cell_error(level, 0, 2 * level, unit);
    for (int i = 1; i < n; i++)
        for (int level = 1; level <= TOP; level++) {
            least[i % 2][level] = INFINITY;
            for (int before = i; before < level; before++)
                least[i % 2][level] = fmin(least[i % 2][level], least[(i - 1) % 2][before] + between[before][level]);
        }
    for (int level = n; level <= TOP; level++)
        best = fmin(best, least[(n - 1) % 2][level] + cell_error(level, 2 * level, 0, unit));
    return best;
}

static void test_grid_levels_are_the_best(void **state) {
    /* Errors of the uniform grid as in grid.h (Max 1960, table II). */
    static const double uniform[] = { 0.1188, 0.03744, 0.01154, 0.003495, 0.001041, 0.0003035 };
    static const double parts[] = { 0.99, 0.92, 0.82, 0.72, 0.63, 0.59 };

    for (int bits = GRID_TABLE_BITS_MIN; bits <= GRID_TABLE_BITS_MAX; bits++) {
        const int n = 1 << (bits - 1);
        double error = INFINITY, least = INFINITY;

        for (int step = 18; step < 60; step++) { /* a level in thousandths of a standard deviation */
            error = fmin(error, error_of(grid_normal_levels[bits] + n, n, step / 1000.0));
            least = fmin(least, least_error(n, step / 1000.0));
        }
        assert_true(error <= least * (1 + 1e-9));
        assert_true(fabs(error / uniform[bits - 2] - parts[bits - 2]) < 0.006);
    }
}

/* --- codes -------------------------------------------------------------------------------------------------------- */

static void test_grid_codes_rise(void **state) {
    assert_int_equal((uintptr_t)grid_normal_levels % 64, 0);
    for (int bits = GRID_TABLE_BITS_MIN; bits <= GRID_TABLE_BITS_MAX; bits++)
        for (int code = 0; code < GRID_TABLE_CODES; code++) {
            const int8_t *levels = grid_normal_levels[bits], last = (int8_t)((1 << bits) - 1);

            if (code > last) {
                assert_int_equal(levels[code], 0);
                continue;
            }
            assert_true(levels[code] >= -TOP && levels[code] == -levels[last - code]);
            assert_true(!code || levels[code] > levels[code - 1]);
            assert_int_equal(grid_level(GRID_NORMAL, code, bits), levels[code]);
            assert_int_equal(grid_code(GRID_NORMAL, levels[code], bits), code);
            assert_int_equal(grid_max(GRID_NORMAL, bits), levels[last]);
        }
}

/* Widths without a table use the uniform grid. */
static void test_grid_of_1_and_8_bits(void **state) {
    for (int bits = 1; bits <= 8; bits += 7) {
        assert_false(grid_has_table(GRID_NORMAL, bits));
        assert_null(grid_nearest(GRID_NORMAL, bits));
        assert_int_equal(grid_max(GRID_NORMAL, bits), grid_max(GRID_UNIFORM, bits));
        for (int code = bits == 8; code < 1 << bits; code++) {
            assert_int_equal(grid_level(GRID_NORMAL, code, bits), grid_level(GRID_UNIFORM, code, bits));
            assert_int_equal(grid_code(GRID_NORMAL, grid_level(GRID_UNIFORM, code, bits), bits), code);
        }
    }
    for (int bits = 1; bits <= 8; bits++)
        assert_null(grid_nearest(GRID_UNIFORM, bits));
}

/* --- the nearest level -------------------------------------------------------------------------------------------- */

static void test_grid_round_takes_the_nearest(void **state) {
    for (int bits = GRID_TABLE_BITS_MIN; bits <= GRID_TABLE_BITS_MAX; bits++) {
        const float *nearest = grid_nearest(GRID_NORMAL, bits);

        for (int i = -2600; i <= 2600; i++) {
            const float v = (float)i / 16;
            float best = grid_normal_levels[bits][0];

            for (int code = 1; code < 1 << bits; code++) {
                const float level = grid_normal_levels[bits][code];

                if (fabsf(level - v) < fabsf(best - v) || (fabsf(level - v) <= fabsf(best - v) && v >= 0))
                    best = level; /* a border belongs to the larger magnitude, 0 to the positive level */
            }
            assert_true(grid_round(nearest, v, bits) == best);
        }
        assert_true(grid_round(nearest, INFINITY, bits) == grid_max(GRID_NORMAL, bits));
        assert_true(grid_round(nearest, -1e30f, bits) == -grid_max(GRID_NORMAL, bits));
    }
}

static void test_grid_names(void **state) {
    for (Grid grid = GRID_UNIFORM; grid < _GRID_N; grid++) {
        Grid named = _GRID_N;

        assert_int_equal(grid_named(&named, grid_name(grid)), 0);
        assert_int_equal(named, grid);
    }
    assert_int_equal(grid_named(&(Grid){ GRID_NORMAL }, "gaussian"), -ENOENT);
    assert_string_equal(grid_name(_GRID_N), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid_levels_are_the_best),
        cmocka_unit_test(test_grid_codes_rise),
        cmocka_unit_test(test_grid_of_1_and_8_bits),
        cmocka_unit_test(test_grid_round_takes_the_nearest),
        cmocka_unit_test(test_grid_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
