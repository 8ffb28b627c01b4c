// SPDX-License-Identifier: Apache-2.0
/* Tests of rotation and rounding of the number contract, against double-precision definitions. */
#undef NDEBUG
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quant/rotate.h"
#include "quant/rounding/round.h"
#include "test/unit/fixtures/model_maker.h"

static void test_rotate_block_size(void **state) {
    assert_int_equal(rotate_block_size(1024), 512);
    assert_int_equal(rotate_block_size(576), 64);
    assert_int_equal(rotate_block_size(896), 128);
    assert_int_equal(rotate_block_size(1280), 256);
    assert_int_equal(rotate_block_size(96), 32);
    assert_int_equal(rotate_block_size(48), 0);
    assert_int_equal(rotate_block_size(0), 0);
}

/* H[i][j] = (-1)^popcount(i & j) / sqrt(block): natural order. */
static void test_rotate_definition(void **state) {
    float x[1024], y[1024];
    uint64_t random = 5;

    for (uint32_t block = 32; block <= 512; block *= 2) {
        for (size_t i = 0; i < 1024; i++)
            x[i] = y[i] = test_random_normal(&random);
        rotate_row(y, 1024, block);
        for (size_t i = 0; i < 1024; i++) {
            double sum = 0;

            for (size_t j = 0; j < block; j++)
                sum += (__builtin_popcountll(i % block & j) % 2 ? -1.0 : 1.0) * (double)x[i / block * block + j];
            assert_true(fabs((double)y[i] - sum / sqrt(block)) < 4e-6);
        }
        rotate_row(y, 1024, block); /* its own inverse */
        for (size_t i = 0; i < 1024; i++)
            assert_true(fabsf(y[i] - x[i]) < 4e-6f);
    }
}

/* The contract fixes the order of additions: a + b, a - b on pairs i, i + h for rising h, in float32. */
static void test_rotate_bits(void **state) {
    float x[64], y[64];
    uint64_t random = 6;

    for (size_t i = 0; i < 64; i++)
        x[i] = y[i] = test_random_normal(&random);
    rotate_row(y, 64, 64);
    for (size_t h = 1; h < 64; h *= 2)
        for (size_t i = 0; i < 64; i++)
            if (!(i & h)) {
                volatile float sum = x[i] + x[i + h], difference = x[i] - x[i + h];

                x[i] = sum;
                x[i + h] = difference;
            }
    for (size_t i = 0; i < 64; i++)
        x[i] *= 0.125f;
    assert_memory_equal(x, y, sizeof(x));
    assert_true(rotate_factor(32) == 0x1.6a09e6p-3f && rotate_factor(512) == 0x1.6a09e6p-5f &&
                rotate_factor(256) == 0.0625f);
}

static void test_rotate_block_fits(void **state) {
    static const struct {
        uint32_t block;
        uint64_t k;
        bool fits;
    } rows[] = {
        { 0, 7, true },
        { 32, 64, true },
        { 32, 96, true },
        { 512, 1024, true },
        { 16, 64, false },
        { 1024, 1024, false },
        { 48, 96, false },
        { 64, 96, false },
        { 1u << 31, 1u << 31, false },
        { UINT32_MAX, 64, false },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_int_equal(rotate_block_fits(rows[i].block, rows[i].k), rows[i].fits);
    for (size_t k = 0; k < 5000; k++)
        assert_true(rotate_block_fits(rotate_block_size(k), k));
}

/* A single large value among 576, as in a channel of the residual stream: its block then has an eighth of it. */
static void test_rotate_spreads(void **state) {
    float x[576] = { [100] = 16 }, y[576];

    memcpy(y, x, sizeof(x));
    rotate_row(y, 576, rotate_block_size(576));
    for (size_t i = 0; i < 576; i++)
        assert_true(fabsf(y[i]) == (i / 64 == 1 ? 2.f : 0.f));
    rotate_row(y, 576, rotate_block_size(576));
    assert_memory_equal(x, y, sizeof(x)); /* all exact */
    rotate_row(y, 576, 0);
    assert_memory_equal(x, y, sizeof(x));
}

static void test_round_channel(void **state) {
    float x[1000], scale;
    int8_t q[1000];
    uint64_t random = 7;

    for (int repeat = 0; repeat < 100; repeat++) {
        float amax = 0, factor = ldexpf(1, (int)(test_random(&random) % 200) - 100);

        for (size_t i = 0; i < 1000; i++) {
            x[i] = test_random_normal(&random) * factor;
            amax = fmaxf(amax, fabsf(x[i]));
        }
        assert_true(round_channel_int8(x, 1000, q, &scale));
        assert_true(scale == amax / 127.0f);
        for (size_t i = 0; i < 1000; i++) {
            assert_true(q[i] >= -127);
            assert_true(q[i] == (int8_t)rint((double)(x[i] * (127.0f / amax))));
            assert_true(fabs((double)x[i] - (double)q[i] * (double)scale) <= 0.50001 * (double)scale);
        }
    }
}

static void test_round_channel_edges(void **state) {
    float ties[] = { 127, 0.5f, 1.5f, 2.5f, -0.5f, -2.5f, -127 }, zeros[] = { 0, -0.0f }, tiny[] = { 1e-40f, 1e-42f };
    float large[] = { FLT_MAX, -FLT_MAX, FLT_MAX / 2 }, bad[] = { 1, NAN, 2 }, infinite[] = { 1, -INFINITY }, scale = 9;
    const int8_t even[] = { 127, 0, 2, 2, 0, -2, -127 };
    int8_t q[8];

    assert_true(round_channel_int8(ties, 7, q, &scale));
    assert_memory_equal(q, even, 7);
    assert_true(round_channel_int8(zeros, 2, q, &scale) && scale == 0 && !q[0] && !q[1]);
    assert_true(round_channel_int8(tiny, 2, q, &scale) && scale == 0 && !q[0] && !q[1]);
    assert_true(round_channel_int8(large, 3, q, &scale) && q[0] == 127 && q[1] == -127 && q[2] == 64 &&
                isfinite(scale));
    scale = 9;
    assert_false(round_channel_int8(bad, 3, q, &scale));
    assert_false(round_channel_int8(infinite, 2, q, &scale));
    assert_true(scale == 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotate_block_size),   cmocka_unit_test(test_rotate_definition),
        cmocka_unit_test(test_rotate_bits),         cmocka_unit_test(test_rotate_block_fits),
        cmocka_unit_test(test_rotate_spreads),      cmocka_unit_test(test_round_channel),
        cmocka_unit_test(test_round_channel_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
