// SPDX-License-Identifier: Apache-2.0
/* Attention in integers, one row-head and one number at a time: the contract of docs/numbers.md in plain C, which gives
 * the bits of every build. Names of the contract's steps are in brackets. */
#ifndef COORDGEN_TEST_UNIT_ATTENTION_PLAIN_H
#define COORDGEN_TEST_UNIT_ATTENTION_PLAIN_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/min_max.h"

enum {
    PLAIN_HEAD_MAX = 1024,
    PLAIN_BLOCK = 256,       /* positions whose weights have one unit */
    PLAIN_WEIGHT_TOP = 32639 /* 127 x 257 */
};

/* Disables sanitizers in the plain loops: the loops take most of a program's time under a sanitizer and are not under
 * test. */
#define UNWATCHED __attribute__((no_sanitize("address", "undefined")))

/* Keys and values of one KV head: positions, then slots of a side block. */
typedef struct PlainKv {
    size_t head_size;
    float *key_scales, *value_scales;
    int8_t *keys, *values; /* [index][head_size] */
} PlainKv;

/* Sums of a row-head over its positions of one block. */
typedef struct PlainSums {
    float score_unit, value_unit;    /* [S, T] */
    int32_t normalizer;              /* [N], in units of 2^(S - 22) */
    int32_t outputs[PLAIN_HEAD_MAX]; /* [O], in units of 2^T / PLAIN_WEIGHT_TOP */
} PlainSums;

/* Sums of a row-head over blocks. */
typedef struct PlainTotals {
    float unit, normalizer, outputs[PLAIN_HEAD_MAX]; /* [R, L, A] */
} PlainTotals;

/* Rotates by the Walsh-Hadamard transform, in blocks of the greatest power of two that divides the head size: sums and
 * differences in rising distance, then the product with 1 / sqrt(block). [H] */
UNWATCHED static inline void plain_turn(float *x, size_t head_size) {
    const size_t power = head_size & (~head_size + 1), block = MIN(power, 512);
    const float factor = (float)(1 / sqrt((double)block));

    for (size_t h = 1; h < block; h *= 2)
        for (size_t i = 0; i < head_size; i++)
            if (!(i & h)) {
                const float a = x[i], b = x[i + h];

                x[i] = a + b;
                x[i + h] = a - b;
            }
    for (size_t i = 0; i < head_size; i++)
        x[i] *= factor;
}

/* Rotates x and makes its levels of +-127. Returns the scale; 0 if all numbers are below 2^-60. */
UNWATCHED static inline float plain_levels(float *x, size_t head_size, int8_t *levels) {
    float greatest = 0;

    plain_turn(x, head_size);
    for (size_t d = 0; d < head_size; d++)
        greatest = fmaxf(greatest, fabsf(x[d]));
    memset(levels, 0, head_size);
    if (greatest < 0x1p-60f)
        return 0;
    for (size_t d = 0; d < head_size; d++)
        levels[d] = (int8_t)rintf(x[d] * (127 / greatest));
    return greatest / 127;
}

/* Stores finite keys and values at an index. balance f32[head_size]: powers of two, or NULL. */
UNWATCHED static inline void plain_store(const PlainKv *kv, size_t index, const float *k, const float *v,
                                         const float *balance) {
    const size_t head_size = kv->head_size;
    float x[PLAIN_HEAD_MAX];

    for (size_t d = 0; d < head_size; d++)
        x[d] = balance ? k[d] / balance[d] : k[d];
    kv->key_scales[index] = plain_levels(x, head_size, kv->keys + index * head_size);
    memcpy(x, v, head_size * sizeof(*x));
    kv->value_scales[index] = plain_levels(x, head_size, kv->values + index * head_size);
}

/* Makes a query's levels. factor: scale x log2(e); with a soft cap 2 x scale / soft cap x log2(e). Returns the query's
 * own factor [qf]. */
UNWATCHED static inline float plain_query(const float *q, const float *balance, size_t head_size, float factor,
                                          int8_t *levels) {
    float x[PLAIN_HEAD_MAX];

    for (size_t d = 0; d < head_size; d++)
        x[d] = balance ? q[d] * balance[d] : q[d];
    return plain_levels(x, head_size, levels) * factor;
}

/* Returns 2^x of x <= 0 by the polynomial that all builds have; x below -125 and NaN count as -125. */
UNWATCHED static inline float plain_exp2(float x) {
    static const float p[] = { 0x1.5bba14p-10f, 0x1.3cea88p-7f, 0x1.c6b752p-5f, 0x1.ebf9bcp-3f, 0x1.62e42ap-1f, 1 };
    float n, r, sum = p[0];

    x = MAX(x, -125);
    n = rintf(x);
    r = x - n;
    for (size_t i = 1; i < ARRAY_LEN(p); i++)
        sum = fmaf(sum, r, p[i]);
    return ldexpf(sum, (int)n);
}

/* Returns 2^x of an integer x: 0 below -126, 2^127 at most and for NaN. */
UNWATCHED static inline float plain_power(float x) {
    return !(x < 127) ? 0x1p127f : x < -126 ? 0 : ldexpf(1, (int)x);
}

/* Returns the integer e with scale < 2^e, at least -64. */
UNWATCHED static inline float plain_exponent(float scale) {
    int e;

    frexpf(scale, &e);
    return scale > 0 ? (float)MAX(e, -64) : -64;
}

/* Returns the score of one key, in powers of two [s]. cap: soft cap x log2(e), or 0. */
UNWATCHED static inline float plain_score(const int8_t *levels, float factor, float cap, const PlainKv *kv,
                                          size_t index) {
    int32_t product = 0;
    float score, e;

    for (size_t d = 0; d < kv->head_size; d++)
        product += levels[d] * kv->keys[index * kv->head_size + d];
    score = (float)product * kv->key_scales[index] * factor;
    if (!(cap > 0))
        return score;
    e = plain_exp2(-fabsf(score));
    return copysignf((1 - e) / (1 + e) * cap, score);
}

/* Sums n positions of one block, in any order. */
UNWATCHED static inline void plain_block(const int8_t *levels, float factor, float cap, const PlainKv *kv,
                                         const size_t *index, size_t n, PlainSums *sums) {
    float scores[PLAIN_BLOCK], greatest = -INFINITY, greatest_value = -INFINITY, top;

    for (size_t i = 0; i < n; i++) {
        scores[i] = plain_score(levels, factor, cap, kv, index[i]);
        greatest = fmaxf(greatest, scores[i]);
        greatest_value = fmaxf(greatest_value, scores[i] + plain_exponent(kv->value_scales[index[i]]));
    }
    *sums = (PlainSums){ .score_unit = ceilf(greatest), .value_unit = ceilf(greatest_value) };
    top = PLAIN_WEIGHT_TOP * plain_power(fminf(sums->score_unit - sums->value_unit, 64));
    for (size_t i = 0; i < n; i++) {
        const int8_t *values = kv->values + index[i] * kv->head_size;
        const float power = plain_exp2(scores[i] - sums->score_unit);
        const int32_t weight = (int32_t)rintf(fminf(power * (kv->value_scales[index[i]] * top), PLAIN_WEIGHT_TOP));

        sums->normalizer += (int32_t)rintf(power * 0x1p22f);
        for (size_t d = 0; d < kv->head_size; d++)
            sums->outputs[d] += weight * values[d];
    }
}

UNWATCHED static inline void plain_begin(PlainTotals *totals) {
    *totals = (PlainTotals){ .unit = -INFINITY };
}

/* Adds the sums of a block of which the row-head reads a position. Blocks come in rising order. */
UNWATCHED static inline void plain_add(PlainTotals *totals, const PlainSums *sums, size_t head_size) {
    const float unit = fmaxf(totals->unit, sums->score_unit),
                shrink = totals->unit == -INFINITY ? 0 : plain_power(totals->unit - unit),
                factor = plain_power(sums->value_unit - unit);

    if (sums->score_unit == -INFINITY) /* all scores have overflowed downwards */
        return;
    totals->normalizer = (float)sums->normalizer * plain_power(sums->score_unit - unit) + totals->normalizer * shrink;
    for (size_t d = 0; d < head_size; d++)
        totals->outputs[d] = (float)sums->outputs[d] * factor + totals->outputs[d] * shrink;
    totals->unit = unit;
}

/* Writes the outputs, rotated back; zeros without any position. */
UNWATCHED static inline void plain_end(const PlainTotals *totals, size_t head_size, float *out) {
    const float factor = totals->unit == -INFINITY ? 0 : (0x1p22f / PLAIN_WEIGHT_TOP) / totals->normalizer;

    for (size_t d = 0; d < head_size; d++)
        out[d] = totals->outputs[d] * factor;
    plain_turn(out, head_size);
}

#endif
