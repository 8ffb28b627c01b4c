// SPDX-License-Identifier: Apache-2.0
/* Tests of rotary tables against long double libm, and of bits that must be the same on every machine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/numeric/rope_table.h"
#include "base/cleanup.h"

enum {
    PAIRS_MAX = 128
};

static uint64_t seed;

static uint32_t draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static const struct {
    double base, position_scale;
    size_t n_rot;
} shapes[] = {
    { 10000, 1, 64 },  { 1e5, 1, 64 }, { 1e6, 1, 128 },      { 1e6, 0.125, 256 }, { 5e5, 1, 128 }, { 1.3e5, 1, 64 },
    { 10000, 1, 256 }, { 2, 1, 2 },    { 1.5, 1.0 / 3, 96 }, { 1e30, 1, 128 },    { 0.25, 1, 8 },  { 1, 1, 4 },
};

static void test_rope_table_frequencies(void **state) {
    double freqs[PAIRS_MAX];
    float divisors[PAIRS_MAX];

    for (size_t i = 0; i < PAIRS_MAX; i++)
        divisors[i] = 1 + (float)(i * i) / 517;
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++)
        for (int divided = 0; divided < 2; divided++) {
            RopeParams params = { shapes[s].base, shapes[s].position_scale, divided ? divisors : NULL,
                                  shapes[s].n_rot };

            rope_frequencies(&params, freqs);
            for (size_t i = 0; i < params.n_rot / 2; i++) {
                long double exact = powl(params.base, -2.0L * i / params.n_rot) * params.position_scale;

                if (divided)
                    exact /= divisors[i];
                if (fabsl(freqs[i] - exact) > 0x1p-52L * exact)
                    fail_msg("base %g, pair %zu of %zu: %a is not %La", params.base, i, params.n_rot / 2, freqs[i],
                             exact);
            }
            if (!divided && params.position_scale == 1)
                assert_true(freqs[0] == 1);
        }
}

/* Returns the error in units in the last place of a float32 result. */
static double error_ulp(float actual, long double exact) {
    float at = fabsf((float)exact);
    long double unit = at < 0x1p-126f ? 0x1p-149L : (long double)nextafterf(at, INFINITY) - at;

    return (double)(fabsl(actual - exact) / unit);
}

static void check_position(const double *freqs, size_t n, size_t position, double *worstp) {
    float cos_row[PAIRS_MAX + 1], sin_row[PAIRS_MAX + 1];

    cos_row[n] = sin_row[n] = 7.5f;
    rope_row(freqs, n, position, cos_row, sin_row);
    assert_true(cos_row[n] == 7.5f && sin_row[n] == 7.5f);
    for (size_t i = 0; i < n; i++) {
        /* long double holds the product of 20 and 44 bits; the other bits of freq turn the angle only slightly */
        double high = (double)(float)freqs[i], low = freqs[i] - high;
        long double angle = (long double)position * high, rest = (long double)position * low;
        double error_cos = error_ulp(cos_row[i], cosl(angle) * cosl(rest) - sinl(angle) * sinl(rest));
        double error_sin = error_ulp(sin_row[i], sinl(angle) * cosl(rest) + cosl(angle) * sinl(rest));

        *worstp = fmax(*worstp, fmax(error_cos, error_sin));
        if (error_cos > 1 || error_sin > 1)
            fail_msg("position %zu x %a: cos %a (%g ulp), sin %a (%g ulp)", position, freqs[i], (double)cos_row[i],
                     error_cos, (double)sin_row[i], error_sin);
    }
}

static void test_rope_table_row(void **state) {
    double freqs[PAIRS_MAX], worst = 0;

    for (size_t s = 0; s < ARRAY_LEN(shapes) - 2; s++) {
        RopeParams params = { shapes[s].base, shapes[s].position_scale, NULL, shapes[s].n_rot };

        rope_frequencies(&params, freqs);
        for (size_t position = 0; position < 600; position++)
            check_position(freqs, params.n_rot / 2, position, &worst);
        for (int i = 0; i < 1500; i++)
            check_position(freqs, params.n_rot / 2, draw() % (1u << 20), &worst);
        check_position(freqs, params.n_rot / 2, (1u << 20) - 1, &worst);
    }
    printf("greatest error %.4f ulp\n", worst);
}

/* Multiples of pi / 2 that are close to integers (convergents of the continued fraction): cos or sin is nearly zero. */
static void test_rope_table_near_zero(void **state) {
    static const size_t positions[] = { 11, 22, 44, 333, 355, 710, 103993, 104348, 208341, 312689, 833719, 573204 };
    const double freq = 1;
    double worst = 0;

    for (size_t i = 0; i < ARRAY_LEN(positions); i++)
        check_position(&freq, 1, positions[i], &worst);
}

static void test_rope_table_position_0(void **state) {
    const double freqs[] = { 1, 0.1, 1e-30 };
    float cos_row[3], sin_row[3];

    rope_row(freqs, 3, 0, cos_row, sin_row);
    for (size_t i = 0; i < 3; i++) {
        assert_true(cos_row[i] == 1);
        assert_true(sin_row[i] == 0);
    }
}

static void test_rope_table_absurd_angle(void **state) {
    const double freqs[] = { 0x1p60, -0x1p60, INFINITY, NAN, 0x1p49 };
    float cos_row[5], sin_row[5];

    rope_row(freqs, 5, 3, cos_row, sin_row);
    for (size_t i = 0; i < 5; i++)
        assert_true(fabsf(cos_row[i]) <= 1 && fabsf(sin_row[i]) <= 1);
    assert_true(cos_row[2] == 1 && sin_row[3] == 0);
}

/* Sums up all bits of one model's table; the sum was taken once and must be the same on every machine. */
static void test_rope_table_same_bits(void **state) {
    RopeParams params = { .base = 1e5, .position_scale = 1, .n_rot = 64 };
    double freqs[32];
    float rows[2][32];
    uint64_t hash = 14695981039346656037u; /* FNV-1a by words */

    rope_frequencies(&params, freqs);
    for (size_t position = 0; position < 4096; position++) {
        rope_row(freqs, 32, position, rows[0], rows[1]);
        for (size_t i = 0; i < 64; i++) {
            uint32_t bits;

            memcpy(&bits, &rows[i / 32][i % 32], sizeof(bits));
            hash = (hash ^ bits) * 1099511628211u;
        }
    }
    assert_true(hash == 0xde3953b348c1bd44u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_table_frequencies),  cmocka_unit_test(test_rope_table_row),
        cmocka_unit_test(test_rope_table_near_zero),    cmocka_unit_test(test_rope_table_position_0),
        cmocka_unit_test(test_rope_table_absurd_angle), cmocka_unit_test(test_rope_table_same_bits),
    };
    const char *env = getenv("TEST_SEED");

    seed = env ? strtoull(env, NULL, 0) : 20240609;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
