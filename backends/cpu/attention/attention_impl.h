// SPDX-License-Identifier: Apache-2.0
/* Source of attention's operators, compiled once for each instruction set. The including file defines ATTENTION_NAME and
 * ATTENTION_NEED, includes the products of its set, and is compiled with the flags of its suffix. docs/numbers.md gives
 * the contract that all builds keep to the bit. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_IMPL_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_IMPL_H

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/attention/attention.h"
#include "backends/numeric/lanes.h"
#include "backends/numeric/lanes_exp2.h"
#include "backends/numeric/lanes_hadamard.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

enum {
    WEIGHT_TOP = 32639, /* greatest weight: 127 x 257, which is an int16, two signed digits and two unsigned bytes */
    COLUMNS_MAX = ATTENTION_PARTS_MAX * KV_BLOCK
};

/* Rows whose greatest value is smaller count as zero, so that no scale is subnormal. */
#define LEAST_ROW 0x1p-60f

/* --- levels ------------------------------------------------------------------------------------------------------- */

/* Returns the block of a head's rotation: the greatest power of two that divides the head size, 512 at most. */
static size_t rotation_block(size_t head_size) {
    const size_t block = head_size & (~head_size + 1);

    return MIN(block, 512);
}

/* Rotates a head in place and makes its levels of +-127. Returns the scale. */
static float levels_of(float *x, size_t head_size, int8_t *levels) {
    float greatest_x = hadamard(x, head_size, rotation_block(head_size), x);
    Lanes factor;

    if (!(greatest_x >= LEAST_ROW)) {
        memset(levels, 0, head_size);
        return 0;
    }
    greatest_x = MIN(greatest_x, FLT_MAX);
    factor = lanes_of(127 / greatest_x);
    for (size_t d = 0; d < head_size; d += N_LANES)
        store_levels(levels + d, lanes_mul(lanes_load(x + d), factor));
    return greatest_x / 127;
}

/* Stores a key's levels at position `at` of a block. */
static void store_key(const KvBlock *block, size_t at, const float *k, const float *balance, size_t head_size) {
    float x[KV_HEAD_SIZE_MAX];
    int8_t levels[KV_HEAD_SIZE_MAX];

    for (size_t d = 0; d < head_size; d += N_LANES) {
        Lanes v = lanes_load(k + d);

        EACH_PART (p)
            if (balance)
                v.part[p] = v.part[p] / *(const PartFLoose *)(balance + d + p * LANES_PART);
        lanes_store(x + d, v);
    }
    block->key_scales[at] = levels_of(x, head_size, levels);
    for (size_t d = 0; d < head_size; d += 4) {
        uint32_t quad;

        memcpy(&quad, levels + d, sizeof(quad));
        quad ^= ATTENTION_KEY_BIAS * 0x01010101u;
        memcpy(block->keys + kv_key_offset(at, d), &quad, sizeof(quad));
    }
}

static void store_value(const KvBlock *block, size_t at, const float *v, size_t head_size) {
    float x[KV_HEAD_SIZE_MAX];
    int8_t levels[KV_HEAD_SIZE_MAX], *to = block->values + kv_value_offset(head_size, at, 0);

    memcpy(x, v, head_size * sizeof(*x));
    block->value_scales[at] = levels_of(x, head_size, levels);
    for (size_t d = 0; d < head_size; d++)
        to[4 * d] = levels[d];
}

static void attention_store(const KvHead *kv, size_t position, const float *k, const float *v, const float *balance,
                            size_t stride, size_t n) {
    for (size_t j = 0; j < n; j++, position++, k += stride, v += stride) {
        const KvBlock block = kv_block_at(kv, kv->blocks[position / KV_BLOCK]);

        store_key(&block, position % KV_BLOCK, k, balance, kv->head_size);
        store_value(&block, position % KV_BLOCK, v, kv->head_size);
    }
}

static void attention_queries(AttentionQueries *queries, size_t at, const float *q, size_t n, const float *balance,
                              float factor) {
    const size_t head_size = queries->head_size, levels_bytes = attention_levels_bytes(head_size);

    for (size_t i = 0; i < n; i++, q += head_size) {
        int8_t *levels = queries->levels + (at + i) * levels_bytes;
        int32_t sum = 0;
        float x[KV_HEAD_SIZE_MAX];

        for (size_t d = 0; d < head_size; d += N_LANES) {
            const Lanes v = lanes_load(q + d);

            lanes_store(x + d, balance ? lanes_mul(v, lanes_load(balance + d)) : v);
        }
        queries->factors[at + i] = levels_of(x, head_size, levels) * factor;
        memset(levels + head_size, 0, levels_bytes - head_size);
        for (size_t d = 0; ATTENTION_KEY_BIAS && d < head_size; d++)
            sum += levels[d];
        queries->starts[at + i] = -ATTENTION_KEY_BIAS * sum;
    }
}

/* --- powers of two ------------------------------------------------------------------------------------------------ */

/* Returns 2^x of an integer x: 0 below -126, 2^127 at most, 2^127 for NaN. */
static float power_of_two(float x) {
    const int32_t exponent = !(x < 127) ? 127 : x >= -126 ? (int32_t)x : -127;
    const uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float power;

    memcpy(&power, &bits, sizeof(power));
    return power;
}

/* Returns the least integer that is not below x. */
static float ceiling(float x) {
    float whole;

    if (!(fabsf(x) < 0x1p23f))
        return x;
    whole = (float)(int32_t)x;
    return whole < x ? whole + 1 : whole;
}

/* Returns, for each scale, the integer e with scale < 2^e, at least -64. */
LANES_INLINE Lanes exponents_of(const float *scales) {
    Lanes v = lanes_load(scales);

    EACH_PART (p) {
        const PartI exponent = (PartI)((PartU)v.part[p] >> 23) - 126;

        v.part[p] = part_max(__builtin_convertvector(exponent, PartF), part_of(-64));
    }
    return v;
}

/* --- the block ---------------------------------------------------------------------------------------------------- */

/* A group's numbers of one block, in scratch. */
typedef struct GroupScratch {
    float *scores;    /* [group][COLUMNS_MAX]: products in int32, then scores */
    uint8_t *weights; /* [group][ATTENTION_PARTS_MAX][WEIGHTS_PART_BYTES] */
    float *exponents; /* [COLUMNS_MAX]: of the value scales */
} GroupScratch;

static GroupScratch group_scratch(void *scratch) {
    float *scores = scratch;
    uint8_t *weights = (uint8_t *)(scores + ATTENTION_GROUP * COLUMNS_MAX);

    return (GroupScratch){
        scores, weights, (float *)(void *)(weights + (size_t)ATTENTION_GROUP * ATTENTION_PARTS_MAX * WEIGHTS_PART_BYTES)
    };
}

/* Replaces lanes whose bit is 0 by `other`. */
LANES_INLINE Lanes lanes_where(Lanes v, uint32_t bits, float other) {
    EACH_PART (p) {
        PartI bit;

        UNROLL for (int i = 0; i < LANES_PART; i++) bit[i] = 1 << (p * LANES_PART + i);
        v.part[p] = part_select((bit & (int32_t)bits) != 0, v.part[p], part_of(other));
    }
    return v;
}

/* Scores become cap x ((1 - e) / (1 + e)) with their own sign, e = 2^-|score|. */
LANES_INLINE Lanes lanes_capped(Lanes v, float cap) {
    const PartF one = part_of(1);

    EACH_PART (p) {
        const PartF e = part_exp2(-part_abs(v.part[p])), y = (one - e) / (one + e) * part_of(cap);

        v.part[p] = (PartF)((PartU)y | ((PartU)v.part[p] & 0x80000000));
    }
    return v;
}

/* Turns a row-head's products into scores; stores the greatest score, and the greatest score + exponent of the value. */
LANES_INLINE void scores_of(float *scores, const AttentionParts *parts, const float *exponents, float factor, float cap,
                            const uint64_t *mask, float *greatestp, float *greatest_valuep) {
    Lanes greatest_score = lanes_of(-INFINITY), greatest_value = lanes_of(-INFINITY);

    for (size_t part = 0; part < parts->n; part++)
        for (size_t at = 0; at < KV_BLOCK; at += N_LANES, scores += N_LANES, exponents += N_LANES) {
            Lanes v, scale = lanes_load(parts->at[part].key_scales + at), exponent = lanes_load(exponents);

            memcpy(&v, scores, sizeof(v));
            EACH_PART (p)
                v.part[p] = __builtin_convertvector((PartI)v.part[p], PartF) * scale.part[p] * part_of(factor);
            if (cap > 0)
                v = lanes_capped(v, cap);
            if (mask)
                v = lanes_where(v, (uint32_t)(mask[part] >> at), -INFINITY);
            lanes_store(scores, v);
            greatest_score = lanes_max(greatest_score, v);
            greatest_value = lanes_max(greatest_value, lanes_add(v, exponent));
        }
    *greatestp = lanes_horizontal_max(greatest_score);
    *greatest_valuep = lanes_horizontal_max(greatest_value);
}

/* Rounds values within 0 and 2^22 to nearest even. */
LANES_INLINE PartI part_rounded(PartF v) {
#if LANES_PART == 16
    return (PartI)_mm512_cvtps_epi32((__m512)v);
#else
    const PartF magic = part_of(0x1.8p23f);

    return (PartI)(v + magic) - (PartI)magic;
#endif
}

/* Makes a row-head's weights from its scores. Returns the normaliser: the sum of 2^(score - unit), in units of 2^-22. */
LANES_INLINE int32_t weights_of(const float *scores, const AttentionParts *parts, float unit, float factor,
                                const uint64_t *mask, uint8_t *weights) {
    PartI sum[LANES_PARTS] = { 0 };
    int32_t sums[N_LANES], total = 0;

    for (size_t part = 0; part < parts->n; part++, weights += WEIGHTS_PART_BYTES)
        for (size_t at = 0; at < KV_BLOCK; at += N_LANES, scores += N_LANES) {
            const Lanes score = lanes_load(scores), scale = lanes_load(parts->at[part].value_scales + at);
            PartI w[LANES_PARTS];
            Lanes weight;

            EACH_PART (p) {
                const PartF power = part_exp2(score.part[p] - part_of(unit));

                sum[p] += part_rounded(power * part_of(0x1p22f));
                weight.part[p] = part_min(power * (scale.part[p] * part_of(factor)), part_of(WEIGHT_TOP));
            }
            if (mask)
                weight = lanes_where(weight, (uint32_t)(mask[part] >> at), 0);
            EACH_PART (p)
                w[p] = part_rounded(weight.part[p]);
            store_weights(weights, at, w);
        }
    memcpy(sums, sum, sizeof(sums));
    for (size_t i = 0; i < N_LANES; i++)
        total += sums[i];
    return total;
}

/* Stores the exponents of all parts' value scales. */
static void store_exponents(const AttentionParts *parts, float *exponents) {
    for (size_t part = 0; part < parts->n; part++, exponents += KV_BLOCK)
        for (size_t at = 0; at < KV_BLOCK; at += N_LANES)
            lanes_store(exponents + at, exponents_of(parts->at[part].value_scales + at));
}

/* Turns the products of row-head `index` into weights, and stores its units and normaliser as sums' i-th. */
static void weights_of_row(const AttentionQueries *queries, size_t index, const AttentionParts *parts,
                           const float *exponents, const uint64_t *mask, float *scores, uint8_t *weights,
                           const AttentionSums *sums, size_t i) {
    float score_unit, value_unit, factor;

    scores_of(scores, parts, exponents, queries->factors[index], queries->cap, mask, &score_unit, &value_unit);
    score_unit = ceiling(score_unit);
    value_unit = ceiling(value_unit);
    factor = WEIGHT_TOP * power_of_two(MIN(score_unit - value_unit, 64));
    sums->score_units[i] = score_unit;
    sums->value_units[i] = value_unit;
    sums->normalizers[i] = weights_of(scores, parts, score_unit, factor, mask, weights);
}

static void attention_block(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts,
                            const AttentionMask *masks, void *scratch, const AttentionSums *sums) {
    const GroupScratch group = group_scratch(scratch);
    const size_t head_size = queries->head_size, levels_bytes = attention_levels_bytes(head_size),
                 stride_bytes = (size_t)ATTENTION_PARTS_MAX * WEIGHTS_PART_BYTES;
    const int8_t *values[ATTENTION_PARTS_MAX];

    assert(n <= ATTENTION_GROUP);
    for (size_t part = 0; part < parts->n; part++) {
        values[part] = parts->at[part].values;
        products_of_keys(queries->levels + first * levels_bytes, levels_bytes, queries->starts + first, n,
                         parts->at[part].keys, head_size, (int32_t *)(void *)group.scores + part * KV_BLOCK,
                         COLUMNS_MAX);
    }
    store_exponents(parts, group.exponents);
    for (size_t i = 0; i < n; i++)
        weights_of_row(queries, first + i, parts, group.exponents, masks ? masks[i] : NULL,
                       group.scores + i * COLUMNS_MAX, group.weights + i * stride_bytes, sums, i);
    products_of_values(group.weights, stride_bytes, n, values, parts->n, head_size, sums->outputs);
}

/* --- over blocks -------------------------------------------------------------------------------------------------- */

static void attention_add(const AttentionSums *sums, size_t n, size_t head_size, const AttentionTotals *totals) {
    for (size_t i = 0; i < n; i++) {
        const float before = totals->units[i], score_unit = sums->score_units[i], unit = MAX(before, score_unit),
                    shrink = before == -INFINITY ? 0 : power_of_two(before - unit),
                    factor = power_of_two(sums->value_units[i] - unit);
        const int32_t *outputs = sums->outputs + i * head_size;
        float *to = totals->outputs + i * head_size;

        if (score_unit == -INFINITY)
            continue;
        totals->normalizers[i] =
            (float)sums->normalizers[i] * power_of_two(score_unit - unit) + totals->normalizers[i] * shrink;
        for (size_t d = 0; d < head_size; d += N_LANES) {
            Lanes total = lanes_load(to + d), addend;

            memcpy(&addend, outputs + d, sizeof(addend));
            EACH_PART (p) {
                const PartF whole = __builtin_convertvector((PartI)addend.part[p], PartF);

                total.part[p] = whole * part_of(factor) + total.part[p] * part_of(shrink);
            }
            lanes_store(to + d, total);
        }
        totals->units[i] = unit;
    }
}

static void attention_end(const AttentionTotals *totals, size_t n, size_t head_size, float *out) {
    for (size_t i = 0; i < n; i++, out += head_size) {
        const float *outputs = totals->outputs + i * head_size;
        const bool is_empty = totals->units[i] == -INFINITY;
        const Lanes factor = lanes_of(is_empty ? 0 : (0x1p22f / WEIGHT_TOP) / totals->normalizers[i]);

        for (size_t d = 0; d < head_size; d += N_LANES)
            lanes_store(out + d, lanes_mul(lanes_load(outputs + d), factor));
        hadamard(out, head_size, rotation_block(head_size), out);
    }
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static void attention_store_weights(const int32_t *w, size_t n, uint8_t *weights) {
    for (size_t at = 0; at < n; at += N_LANES) {
        PartI part[LANES_PARTS];

        memcpy(part, w + at, sizeof(part));
        store_weights(weights + at / KV_BLOCK * WEIGHTS_PART_BYTES, at % KV_BLOCK, part);
    }
}

/* A set with a way of its own through the block names its function, and defines it behind this header. */
#ifndef ATTENTION_BLOCK_SUMS
#define ATTENTION_BLOCK_SUMS attention_block
#endif

extern const AttentionOps ATTENTION_NAME;

#define ATTENTION_TEXT(name) #name
#define ATTENTION_STRING(name) ATTENTION_TEXT(name)

const AttentionOps ATTENTION_NAME = {
    .name = ATTENTION_STRING(ATTENTION_NAME),
    .need = ATTENTION_NEED,
    .group = ATTENTION_GROUP,
    .key_bias = ATTENTION_KEY_BIAS,
    .store = attention_store,
    .queries = attention_queries,
    .block = ATTENTION_BLOCK_SUMS,
    .add = attention_add,
    .end = attention_end,
    .products_of_keys = products_of_keys,
    .products_of_values = products_of_values,
    .store_weights = attention_store_weights,
};

#endif
