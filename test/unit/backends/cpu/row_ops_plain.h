// SPDX-License-Identifier: Apache-2.0
/* Helpers of the row operators' tests: random rows, exact comparison, and plain loops that define the bits. */
#ifndef COORDGEN_TEST_UNIT_ROW_OPS_PLAIN_H
#define COORDGEN_TEST_UNIT_ROW_OPS_PLAIN_H

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/rows/row_ops.h"
#include "base/cleanup.h"
#include "base/f16.h"
#include "base/system/cpu.h"

enum {
    N_MAX = 1024,
    GUARD = 4
};

static const float untouched = -3.0625e20f;

static uint64_t row_ops_seed;

static inline uint32_t draw(void) {
    row_ops_seed = row_ops_seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(row_ops_seed >> 32);
}

/* Returns a number in [-range, range), with all fraction bits in use. */
static inline float draw_float(float range) {
    return (float)((double)(int32_t)draw() / 2147483648.0 * (double)range);
}

static inline void fill(float *x, size_t n, float range) {
    for (size_t i = 0; i < n; i++)
        x[i] = draw_float(range);
}

static inline bool same_value(float a, float b) {
    return !memcmp(&a, &b, sizeof(a)) || (isnan(a) && isnan(b));
}

static inline void check_row(const RowOps *ops, const char *what, const float *actual, const float *expected,
                             size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!same_value(actual[i], expected[i]))
            fail_msg("%s %s n=%zu: [%zu] is %a, expected %a", ops->name, what, n, i, (double)actual[i],
                     (double)expected[i]);
}

#define EACH_BUILD(ops)                                                                                                \
    for (size_t build_ = 0; build_ < row_ops_n(); build_++)                                                            \
        for (const RowOps *ops = row_ops_at(build_); ops && !(ops->need & ~cpu_features()); ops = NULL)

static inline float plain_tree(float *sum) {
    for (size_t step = 8; step; step /= 2)
        for (size_t i = 0; i < step; i++)
            sum[i] = sum[i] + sum[i + step];
    return sum[0];
}

static inline float plain_dot(const float *a, const float *b, size_t n) {
    float sum[16] = { 0 };

    for (size_t i = 0; i < n; i++) {
        float product = a[i] * b[i];

        sum[i % 16] = sum[i % 16] + product;
    }
    return plain_tree(sum);
}

static inline double ulp_of(double value) {
    float at = (float)fabs(value);

    return at < FLT_MIN ? 0x1p-149 : (double)(nextafterf(at, INFINITY) - at);
}

/* The documented steps of exp, one number at a time. */
static inline float plain_exp(float x) {
    static const float q[] = { 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                               4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f };
    float n, r, p, product;
    int k;

    if (isnan(x))
        return x;
    x = fminf(fmaxf(x, -105), 89);
    product = x * 0x1.715476p0f;
    n = rintf(product);
    k = (int)n;
    product = n * 0.693359375f;
    r = x - product;
    product = n * -2.12194440e-4f;
    r = r - product;
    p = q[0];
    for (size_t i = 1; i < ARRAY_LEN(q); i++) {
        product = p * r;
        p = product + q[i];
    }
    product = r * r;
    product = p * product;
    p = product + r;
    p = p + 1;
    return ldexpf(p, k); /* rounds once, as the kernels do */
}

/* Seeds from TEST_SEED or the argument; prints the seed and the builds that this machine can test. */
static inline void row_ops_begin(uint64_t seed) {
    const char *env = getenv("TEST_SEED");

    row_ops_seed = env ? strtoull(env, NULL, 0) : seed;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)row_ops_seed);
    for (size_t i = 0; i < row_ops_n(); i++)
        printf("%s: %s\n", row_ops_at(i)->name,
               row_ops_at(i)->need & ~cpu_features() ? "absent on this machine" : "tested");
}

#endif
