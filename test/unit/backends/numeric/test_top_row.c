// SPDX-License-Identifier: Apache-2.0
/* Tests of the greatest values of a row: every build of this machine against a plain loop. */
#include "backends/numeric/exp_row.h"
#include "backends/numeric/top_row.h"
#include "base/min_max.h"
#include "test/unit/backends/cpu/row_ops_plain.h"

enum {
    N_TOP = 8,
    N_LONG = 5000
};

#define EACH_BUILD_OF_TOP(build)                                                                                       \
    for (size_t build_ = 0; build_ < top_row_n(); build_++)                                                            \
        for (const TopRow *build = top_row_at(build_); build && !(build->need & ~cpu_features()); build = NULL)

/* Repeatedly takes the greatest remaining value. */
static size_t plain_top(const float *x, size_t n, size_t k, uint32_t *indices) {
    static bool taken[N_LONG];
    size_t found = 0;

    memset(taken, 0, sizeof(taken));
    for (; found < k; found++) {
        size_t best = n;

        for (size_t i = 0; i < n; i++)
            if (!taken[i] && x[i] > -INFINITY && (best == n || x[i] > x[best]))
                best = i;
        if (best == n)
            break;
        taken[best] = true;
        indices[found] = (uint32_t)best;
    }
    return found;
}

static void check_top(const float *x, size_t n, size_t k) {
    uint32_t expected[N_TOP], indices[N_TOP];
    float values[N_TOP];
    const size_t n_expected = plain_top(x, n, k, expected);

    EACH_BUILD_OF_TOP(build) {
        size_t found = 0;

        for (size_t first = 0, part; first < n; first += part) {
            part = draw() % 3 ? n - first : 1 + draw() % (n - first);
            found = build->top(x + first, part, first, k, found, indices, values);
        }
        assert_int_equal(found, n_expected);
        for (size_t i = 0; i < n_expected; i++) {
            if (indices[i] != expected[i])
                fail_msg("%s: value %zu of %zu is at %u, expected %u", build->name, i, n, indices[i], expected[i]);
            assert_true(same_value(values[i], x[expected[i]]));
        }
    }
}

static void test_top_row_random(void **state) {
    static float x[N_LONG];

    for (size_t round = 0; round < 300; round++) {
        const size_t n = round < 150 ? round : 150 + draw() % (N_LONG - 150);

        for (size_t i = 0; i < n; i++) /* many equal values in every second round */
            x[i] = round % 2 ? draw_float(30) : (float)(draw() % 20) - 10;
        check_top(x, n, round % (N_TOP + 1));
    }
}

/* Rising values are inserted one by one, falling ones never; some values are NaN. */
static void test_top_row_orders(void **state) {
    static float x[N_LONG];

    for (size_t i = 0; i < N_LONG; i++)
        x[i] = (float)i;
    check_top(x, N_LONG, N_TOP);
    for (size_t i = 0; i < N_LONG; i++)
        x[i] = -(float)i;
    check_top(x, N_LONG, N_TOP);
    for (size_t i = 0; i < N_LONG; i++)
        x[i] = i % 1000 == 999 ? (float)i : i % 2 ? NAN : -INFINITY;
    check_top(x, N_LONG, N_TOP);
    check_top(x, 100, N_TOP);
}

static void test_top_row_mass(void **state) {
    static float x[N_LONG];

    for (size_t round = 0; round < 100; round++) {
        const size_t n = 1 + draw() % N_LONG;
        double expected = 0;
        float max = -INFINITY, first = 0;
        bool is_first = true;

        for (size_t i = 0; i < n; i++) {
            x[i] = draw_float(round % 2 ? 3 : 60);
            max = MAX(x[i], max);
        }
        for (size_t i = 0; i < n; i++)
            expected += exp((double)x[i] - (double)max);
        EACH_BUILD_OF_TOP(build) {
            const float mass = build->mass(x, n, max);

            assert_true(fabs((double)mass - expected) < 1e-4 * expected);
            if (is_first)
                first = mass;
            assert_true(same_value(mass, first));
            is_first = false;
        }
    }
}

static void test_top_row_select(void **state) {
    assert_int_equal(top_row_at(top_row_n() - 1)->need, 0);
    assert_ptr_equal(top_row_select(0), top_row_at(top_row_n() - 1));
    assert_ptr_equal(top_row_select(CPU_ALL), top_row_at(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top_row_random),
        cmocka_unit_test(test_top_row_orders),
        cmocka_unit_test(test_top_row_mass),
        cmocka_unit_test(test_top_row_select),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
