// SPDX-License-Identifier: Apache-2.0
/* Tests of the allocation of bits against brute force, and of its guarantee. */
#undef NDEBUG
#include <errno.h>
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
#include "quant/bit_allocation.h"
#include "quant/relative_error.h"
#include "test/unit/fixtures/model_maker.h"

static double uniform(uint64_t *random) {
    return ((double)(test_random(random) >> 11) + 0.5) * 0x1p-53;
}

/* Least sum of errors over all widths min..max of n groups that fit into the budget, found by trying every one. */
typedef struct Brute {
    const BitGroup *groups;
    size_t n;
    int min_bits, max_bits;
    double least;
} Brute;

static void brute(Brute *state, size_t i, double left, double error) {
    if (left < 0)
        return;
    if (i == state->n) {
        state->least = MIN(error, state->least);
        return;
    }
    for (int bits = state->min_bits; bits <= state->max_bits; bits++)
        brute(state, i + 1, left - (double)bits * (double)state->groups[i].n_weights,
              error + state->groups[i].error[bits - 1]);
}

static double least_error(const BitGroup *groups, size_t n, double budget, int min_bits, int max_bits) {
    Brute state = { groups, n, min_bits, max_bits, INFINITY };

    brute(&state, 0, budget, 0);
    return state.least;
}

static double sum_of_errors(const BitGroup *groups, size_t n, const int8_t *bits, double *usedp) {
    double error = 0;

    *usedp = 0;
    for (size_t i = 0; i < n; i++) {
        error += groups[i].error[bits[i] - 1];
        *usedp += (double)bits[i] * (double)groups[i].n_weights;
    }
    return error;
}

/* --- Algorithm 1 ------------------------------------------------------------------------------------------------- */

static void test_tensor_equals_brute_force(void **state) {
    uint64_t random = 1;

    for (int repeat = 0; repeat < 400; repeat++) {
        const size_t n = 1 + test_random(&random) % 5;
        const double average = repeat % 4 ? 1 + 7 * uniform(&random) : (double)(1 + test_random(&random) % 8);
        BitGroup groups[5];
        double peaks[5], used, error, least;
        int8_t bits[5];

        for (size_t i = 0; i < n; i++) {
            peaks[i] = exp(8 * uniform(&random));
            groups[i].n_weights = 1;
            for (int b = 1; b <= 8; b++)
                groups[i].error[b - 1] = relative_error(peaks[i], b);
        }
        assert_int_equal(bit_allocation_tensor(peaks, n, average, bits), 0);
        error = sum_of_errors(groups, n, bits, &used);
        least = least_error(groups, n, floor((double)n * average), 1, 8);
        assert_true(fabs(error - least) <= 1e-12 * least);
        assert_true(used == floor((double)n * average)); /* all of it, at most 8 a channel */
    }
}

/* The paper's form: an array that is searched for its largest gain, the remaining budget in 1/C. */
static void test_tensor_is_algorithm_1(void **state) {
    enum {
        N = 300
    };
    uint64_t random = 2;
    double peaks[N];
    int8_t bits[N], expected[N];

    for (int repeat = 0; repeat < 30; repeat++) {
        const int total = (int)(N + test_random(&random) % (7 * N + 1));

        for (size_t i = 0; i < N; i++) {
            peaks[i] = repeat % 2 ? (double)(1 + test_random(&random) % 7) : exp(5 * uniform(&random)); /* with ties */
            expected[i] = 1;
        }
        for (int spent = N; spent < total; spent++) {
            size_t best = N;
            double best_gain = -1;

            for (size_t i = 0; i < N; i++) {
                double gain = relative_error(peaks[i], expected[i]) -
                              (expected[i] < 8 ? relative_error(peaks[i], expected[i] + 1) : 0);

                if (expected[i] < 8 && gain > best_gain) {
                    best_gain = gain;
                    best = i;
                }
            }
            expected[best]++;
        }
        assert_int_equal(bit_allocation_tensor(peaks, N, (double)total / N, bits), 0);
        assert_memory_equal(bits, expected, N);
    }
}

static void test_tensor_edges(void **state) {
    double peaks[10] = { 5, 5, 5, 5, 5, 5, 5, 5, 5, 5 }, zeros[3] = { 0, 0, 0 }, some[3] = { 0, 4, 0 };
    int8_t bits[10];
    int sum = 0;

    assert_int_equal(bit_allocation_tensor(peaks, 10, 8, bits), 0);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(bits[i], 8);
    assert_int_equal(bit_allocation_tensor(peaks, 10, 1, bits), 0);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(bits[i], 1);
    assert_int_equal(bit_allocation_tensor(peaks, 10, 4.7, bits), 0); /* ties: lower channels first */
    for (size_t i = 0; i < 10; i++)
        sum += bits[i];
    assert_int_equal(sum, 47);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(bits[i], i < 7 ? 5 : 4);
    assert_int_equal(bit_allocation_tensor(peaks, 1, 3.99, bits), 0);
    assert_int_equal(bits[0], 3);
    assert_int_equal(bit_allocation_tensor(zeros, 3, 2, bits), 0);
    assert_int_equal(bits[0] + bits[1] + bits[2], 6);
    assert_int_equal(bit_allocation_tensor(some, 3, 2, bits), 0);
    assert_int_equal(bits[1], 4);
}

static void test_tensor_refuses(void **state) {
    double peaks[2] = { 1, 2 }, negative[2] = { 1, -1 }, infinite[2] = { INFINITY, 1 }, bad[2] = { 1, NAN };
    int8_t bits[2] = { 77, 77 };

    assert_int_equal(bit_allocation_tensor(peaks, 0, 4, bits), -EINVAL);
    assert_int_equal(bit_allocation_tensor(peaks, 2, 0.99, bits), -EINVAL);
    assert_int_equal(bit_allocation_tensor(peaks, 2, 8.01, bits), -EINVAL);
    assert_int_equal(bit_allocation_tensor(peaks, 2, NAN, bits), -EINVAL);
    assert_int_equal(bit_allocation_tensor(negative, 2, 4, bits), -EINVAL);
    assert_int_equal(bit_allocation_tensor(infinite, 2, 4, bits), -EINVAL);
    assert_int_equal(bit_allocation_tensor(bad, 2, 4, bits), -EINVAL);
    assert_true(bits[0] == 77 && bits[1] == 77);
}

/* --- the whole model --------------------------------------------------------------------------------------------- */

enum {
    CONVEX,
    NOT_CONVEX, /* falling, with flat and steep parts */
    NOISY,      /* not even falling everywhere */
    N_SHAPES
};

static void make_groups(BitGroup *groups, size_t n, int shape, bool one_size, uint64_t *random) {
    for (size_t i = 0; i < n; i++) {
        double error = exp(6 * uniform(random));

        groups[i].n_weights = one_size ? 16 : 1 + test_random(random) % 40;
        for (int b = 0; b < 8; b++) {
            groups[i].error[b] = shape == NOISY ? error * (0.5 + uniform(random)) : error;
            error *= shape == CONVEX ? 0.25 : test_random(random) % 3 ? 0.9 : 0.1;
        }
    }
}

/* Takes the hull's steps in order of gain, as in the docstring: returns the gain of the first one that does not fit. */
static double gain_that_did_not_fit(const BitGroup *groups, size_t n, double budget, int min_bits, int max_bits) {
    int bits[8];
    double left = budget;

    for (size_t i = 0; i < n; i++) {
        bits[i] = min_bits;
        left -= (double)min_bits * (double)groups[i].n_weights;
    }
    for (;;) {
        double best = 0, cost = 0;
        size_t which = n;
        int to = 0;

        for (size_t i = 0; i < n; i++)
            for (int b = bits[i] + 1; b <= max_bits; b++) {
                double step = (double)(b - bits[i]) * (double)groups[i].n_weights;
                double gain = (groups[i].error[bits[i] - 1] - groups[i].error[b - 1]) / step;

                if (gain > best) {
                    best = gain;
                    cost = step;
                    which = i;
                    to = b;
                }
            }
        if (which == n)
            return 0;
        if (cost > left)
            return best * cost;
        left -= cost;
        bits[which] = to;
    }
}

static void test_model_guarantee(void **state) {
    uint64_t random = 3;
    size_t n_optimal = 0, n_cases = 0;

    for (int repeat = 0; repeat < 600; repeat++) {
        const size_t n = 1 + test_random(&random) % 5;
        const int shape = repeat % N_SHAPES, min_bits = 1 + (int)(test_random(&random) % 3);
        const int max_bits = min_bits + (int)(test_random(&random) % (size_t)(9 - min_bits));
        const double average = min_bits + (8 - min_bits) * uniform(&random);
        double budget = 0, used, error, least, slack;
        BitGroup groups[5];
        int8_t bits[5];

        make_groups(groups, n, shape, false, &random);
        for (size_t i = 0; i < n; i++)
            budget += (double)groups[i].n_weights;
        budget = floor(budget * average);
        assert_int_equal(bit_allocation_model(groups, n, average, min_bits, max_bits, bits), 0);
        for (size_t i = 0; i < n; i++)
            assert_in_range(bits[i], min_bits, max_bits);
        error = sum_of_errors(groups, n, bits, &used);
        assert_true(used <= budget);
        least = least_error(groups, n, budget, min_bits, max_bits);
        slack = gain_that_did_not_fit(groups, n, budget, min_bits, max_bits);
        assert_true(error >= least * (1 - 1e-12));
        assert_true(error <= (least + slack) * (1 + 1e-12));
        if (slack == 0)
            assert_true(error <= least * (1 + 1e-12));
        n_cases++;
        n_optimal += error <= least * (1 + 1e-12);
    }
    print_message("%zu of %zu small cases are the optimum\n", n_optimal, n_cases);
    assert_true(n_optimal > n_cases / 2);
}

/* Groups of one size with convex errors: the optimum for every budget. */
static void test_model_exact_when_convex(void **state) {
    uint64_t random = 4;

    for (int repeat = 0; repeat < 300; repeat++) {
        const size_t n = 1 + test_random(&random) % 5;
        const double average = 1 + 7 * uniform(&random);
        double used, error, budget = floor(16 * (double)n * average), least;
        BitGroup groups[5];
        int8_t bits[5];

        make_groups(groups, n, CONVEX, true, &random);
        assert_int_equal(bit_allocation_model(groups, n, average, 1, 8, bits), 0);
        error = sum_of_errors(groups, n, bits, &used);
        least = least_error(groups, n, budget, 1, 8);
        assert_true(fabs(error - least) <= 1e-12 * least);
        assert_true(budget - used < 16);
    }
}

/* The result is Algorithm 1's for groups of one weight with the paper's errors. */
static void test_model_agrees_with_tensor(void **state) {
    enum {
        N = 500
    };
    static BitGroup groups[N];
    uint64_t random = 5;
    double peaks[N];
    int8_t bits[N], expected[N];

    for (int repeat = 0; repeat < 20; repeat++) {
        const double average = 1 + 7 * uniform(&random);

        for (size_t i = 0; i < N; i++) {
            peaks[i] = (double)(1 + test_random(&random) % 50);
            groups[i].n_weights = 1;
            for (int b = 1; b <= 8; b++)
                groups[i].error[b - 1] = relative_error(peaks[i], b);
        }
        assert_int_equal(bit_allocation_tensor(peaks, N, average, expected), 0);
        assert_int_equal(bit_allocation_model(groups, N, average, 1, 8, bits), 0);
        assert_memory_equal(bits, expected, N);
    }
}

/* Many groups of very different sizes: the unused budget is below the smallest raise. */
static void test_model_uses_up(void **state) {
    enum {
        N = 20000
    };
    BitGroup *groups = calloc(N, sizeof(*groups));
    int8_t *bits = calloc(N, 1), *again = calloc(N, 1);
    uint64_t random = 6;
    double n_weights = 0, used;

    assert_true(groups && bits && again);
    for (size_t i = 0; i < N; i++) {
        double error = exp(10 * uniform(&random));

        groups[i].n_weights = i % 100 ? 16 * (64 + test_random(&random) % 2000) : 40000000;
        n_weights += (double)groups[i].n_weights;
        error *= (double)groups[i].n_weights;
        for (int b = 0; b < 8; b++)
            groups[i].error[b] = error *= 0.3 * (0.5 + uniform(&random));
    }
    for (double average = 1; average <= 8; average += 0.45) {
        assert_int_equal(bit_allocation_model(groups, N, average, 1, 8, bits), 0);
        sum_of_errors(groups, N, bits, &used);
        assert_true(used <= n_weights * average);
        assert_true(average == 1 || used > n_weights * average - 16 * 2064 || average > 7.9);
        assert_int_equal(bit_allocation_model(groups, N, average, 1, 8, again), 0);
        assert_memory_equal(bits, again, N);
    }
    free(groups);
    free(bits);
    free(again);
}

static void test_model_useless_bits(void **state) {
    /* the second group is no better with more than 3 bits, the third is never better */
    const BitGroup groups[3] = { { 4, { 8, 7, 6, 5, 4, 3, 2, 1 } },
                                 { 4, { 9, 5, 1, 1, 1, 1, 1, 1 } },
                                 { 4, { 0, 0, 0, 0, 0, 0, 0, 0 } } };
    const BitGroup cliff = { 2, { 10, 10, 10, 2, 2, 2, 2, 2 } }; /* nothing until 4 bits */
    int8_t bits[3];

    assert_int_equal(bit_allocation_model(groups, 3, 8, 1, 8, bits), 0);
    assert_true(bits[0] == 8 && bits[1] == 3 && bits[2] == 1);
    assert_int_equal(bit_allocation_model(&cliff, 1, 3.9, 1, 8, bits), 0);
    assert_int_equal(bits[0], 1);
    assert_int_equal(bit_allocation_model(&cliff, 1, 4, 1, 8, bits), 0);
    assert_int_equal(bits[0], 4);
    assert_int_equal(bit_allocation_model(groups, 3, 4, 4, 4, bits), 0);
    assert_true(bits[0] == 4 && bits[1] == 4 && bits[2] == 4);
    assert_int_equal(bit_allocation_model(groups, 3, 8, 2, 4, bits), 0); /* a budget beyond what max_bits can use */
    assert_true(bits[0] == 4 && bits[1] == 3 && bits[2] == 2);
}

static void test_model_refuses(void **state) {
    const BitGroup good = { 4, { 8, 7, 6, 5, 4, 3, 2, 1 } };
    BitGroup bad = good;
    int8_t bits[1] = { 77 };

    assert_int_equal(bit_allocation_model(&good, 0, 4, 1, 8, bits), -EINVAL);
    assert_int_equal(bit_allocation_model(&good, 1, 1.9, 2, 8, bits), -EINVAL);
    assert_int_equal(bit_allocation_model(&good, 1, 8.1, 1, 8, bits), -EINVAL);
    assert_int_equal(bit_allocation_model(&good, 1, NAN, 1, 8, bits), -EINVAL);
    assert_int_equal(bit_allocation_model(&good, 1, 4, 0, 8, bits), -EINVAL);
    assert_int_equal(bit_allocation_model(&good, 1, 4, 1, 9, bits), -EINVAL);
    assert_int_equal(bit_allocation_model(&good, 1, 6, 5, 4, bits), -EINVAL);
    bad.n_weights = 0;
    assert_int_equal(bit_allocation_model(&bad, 1, 4, 1, 8, bits), -EINVAL);
    bad = good;
    bad.error[3] = NAN;
    assert_int_equal(bit_allocation_model(&bad, 1, 4, 1, 8, bits), -EINVAL);
    bad.error[3] = INFINITY;
    assert_int_equal(bit_allocation_model(&bad, 1, 4, 1, 8, bits), -EINVAL);
    assert_int_equal(bits[0], 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_equals_brute_force),
        cmocka_unit_test(test_tensor_is_algorithm_1),
        cmocka_unit_test(test_tensor_edges),
        cmocka_unit_test(test_tensor_refuses),
        cmocka_unit_test(test_model_guarantee),
        cmocka_unit_test(test_model_exact_when_convex),
        cmocka_unit_test(test_model_agrees_with_tensor),
        cmocka_unit_test(test_model_uses_up),
        cmocka_unit_test(test_model_useless_bits),
        cmocka_unit_test(test_model_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
