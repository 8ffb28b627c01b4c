// SPDX-License-Identifier: Apache-2.0
/* Source of attention's operators, compiled once for each instruction set. The including file defines ATTENTION_NAME
 * and ATTENTION_NEED, includes the products of its set, and is compiled with the flags of its suffix. docs/numbers.md
 * gives the contract that all builds keep to the bit. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_IMPL_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_IMPL_H

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/attention_weights_impl.h"
#include "backends/numeric/lanes.h"
#include "backends/numeric/lanes_hadamard.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

/* Rows whose greatest value is smaller count as zero, so that no scale is subnormal. */
#define LEAST_ROW 0x1p-60f

/* --- levels ------------------------------------------------------------------------------------------------------- */

/* Returns the block of a head's rotation: the greatest power of two that divides the head size, 512 at most. */
static size_t rotation_block(size_t head_size) {
    const size_t block = head_size & (~head_size + 1);

    return MIN(block, 512);
}

/* Rotates a head and makes its levels of +-127. Returns the scale. */
static float levels_of(const float *head, size_t head_size, int8_t *levels) {
    float x[KV_HEAD_SIZE_MAX], greatest_x = hadamard(head, head_size, rotation_block(head_size), x);
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

/* --- the cache ---------------------------------------------------------------------------------------------------- */

/* Divides a key by the balance, powers of two: multiplies by the inverse, whose exponent is the opposite. */
static __attribute__((noinline)) void divide_by_balance(const float *k, const float *balance, size_t head_size,
                                                        float *x) {
    for (size_t d = 0; d < head_size; d += N_LANES) {
        Lanes v = lanes_load(k + d);

        EACH_PART (p)
            v.part[p] *= (PartF)(0x7f000000 - *(const PartILoose *)(balance + d + p * LANES_PART));
        lanes_store(x + d, v);
    }
}

/* Makes a key's levels, biased. Returns its scale. */
static float key_levels(const float *k, const float *balance, size_t head_size, int8_t *levels) {
    const float *from = k;
    float x[KV_HEAD_SIZE_MAX], scale;

    if (balance) {
        divide_by_balance(k, balance, head_size, x);
        from = x;
    }
    scale = levels_of(from, head_size, levels);
    for (size_t d = 0; ATTENTION_KEY_BIAS != 0 && d < head_size; d++)
        levels[d] = (int8_t)(levels[d] ^ ATTENTION_KEY_BIAS);
    return scale;
}

static void store_one(const KvBlock *block, size_t at, const float *k, const float *v, const float *balance,
                      size_t head_size) {
    int8_t levels[KV_HEAD_SIZE_MAX], *to = block->values + kv_value_offset(head_size, at, 0);

    block->key_scales[at] = key_levels(k, balance, head_size, levels);
    for (size_t d = 0; d < head_size; d += 4)
        memcpy(block->keys + kv_key_offset(at, d), levels + d, 4);
    block->value_scales[at] = levels_of(v, head_size, levels);
    for (size_t d = 0; d < head_size; d++)
        to[4 * d] = levels[d];
}

typedef int8_t Bytes __attribute__((vector_size(16)));
typedef int16_t Pairs __attribute__((vector_size(16)));
typedef int32_t Quads __attribute__((vector_size(16)));
typedef int64_t Octets __attribute__((vector_size(16)));

LANES_INLINE Bytes load_bytes(const int8_t *levels) {
    Bytes bytes;

    memcpy(&bytes, levels, sizeof(bytes));
    return bytes;
}

/* Stores levels of 16 channels from d on, of 4 positions from `at` on: 4 x 4 quads, transposed. */
LANES_INLINE void store_keys_of_4(const KvBlock *block, size_t at, size_t d, const Bytes row[4]) {
    const Quads a = (Quads)row[0], b = (Quads)row[1], c = (Quads)row[2], e = (Quads)row[3];
    const Octets ab[2] = { (Octets)__builtin_shufflevector(a, b, 0, 4, 1, 5),
                           (Octets)__builtin_shufflevector(a, b, 2, 6, 3, 7) };
    const Octets ce[2] = { (Octets)__builtin_shufflevector(c, e, 0, 4, 1, 5),
                           (Octets)__builtin_shufflevector(c, e, 2, 6, 3, 7) };

    UNROLL
    for (size_t i = 0; i < 2; i++) {
        const Octets low = __builtin_shufflevector(ab[i], ce[i], 0, 2),
                     high = __builtin_shufflevector(ab[i], ce[i], 1, 3);

        memcpy(block->keys + kv_key_offset(at, d + 8 * i), &low, sizeof(low));
        memcpy(block->keys + kv_key_offset(at, d + 8 * i + 4), &high, sizeof(high));
    }
}

#define LOW_BYTES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_BYTES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

/* Stores levels of 16 channels from d on, of 4 positions from `at` on: each channel's 4 levels side by side. */
LANES_INLINE void store_values_of_4(const KvBlock *block, size_t at, size_t d, size_t head_size, const Bytes row[4]) {
    int8_t *to = block->values + kv_value_offset(head_size, at, d);
    const Pairs ab[2] = { (Pairs)__builtin_shufflevector(row[0], row[1], LOW_BYTES),
                          (Pairs)__builtin_shufflevector(row[0], row[1], HIGH_BYTES) };
    const Pairs ce[2] = { (Pairs)__builtin_shufflevector(row[2], row[3], LOW_BYTES),
                          (Pairs)__builtin_shufflevector(row[2], row[3], HIGH_BYTES) };

    UNROLL
    for (size_t i = 0; i < 2; i++) {
        const Pairs low = __builtin_shufflevector(ab[i], ce[i], 0, 8, 1, 9, 2, 10, 3, 11),
                    high = __builtin_shufflevector(ab[i], ce[i], 4, 12, 5, 13, 6, 14, 7, 15);

        memcpy(to + 32 * i, &low, sizeof(low));
        memcpy(to + 32 * i + 16, &high, sizeof(high));
    }
}

#undef LOW_BYTES
#undef HIGH_BYTES

/* Stores 4 positions from `at` on, a multiple of 4: single bytes would take longer than making them. */
static void store_4(const KvBlock *block, size_t at, const float *k, const float *v, const float *balance,
                    size_t stride, size_t head_size) {
    int8_t levels[4][KV_HEAD_SIZE_MAX];
    Bytes row[4];

    for (size_t j = 0; j < 4; j++)
        block->key_scales[at + j] = key_levels(k + j * stride, balance, head_size, levels[j]);
    for (size_t d = 0; d < head_size; d += sizeof(Bytes)) {
        UNROLL for (size_t j = 0; j < 4; j++) row[j] = load_bytes(levels[j] + d);
        store_keys_of_4(block, at, d, row);
    }
    for (size_t j = 0; j < 4; j++)
        block->value_scales[at + j] = levels_of(v + j * stride, head_size, levels[j]);
    for (size_t d = 0; d < head_size; d += sizeof(Bytes)) {
        UNROLL for (size_t j = 0; j < 4; j++) row[j] = load_bytes(levels[j] + d);
        store_values_of_4(block, at, d, head_size, row);
    }
}

static void attention_store(const KvHead *kv, size_t position, const float *k, const float *v, const float *balance,
                            size_t stride, size_t n) {
    for (size_t j = 0, n_stored; j < n; j += n_stored, position += n_stored) {
        const KvBlock block = kv_block_at(kv, kv->blocks[position / KV_BLOCK]);
        const size_t at = position % KV_BLOCK;

        n_stored = at % 4 || n - j < 4 ? 1 : 4;
        if (n_stored == 1)
            store_one(&block, at, k + j * stride, v + j * stride, balance, kv->head_size);
        else
            store_4(&block, at, k + j * stride, v + j * stride, balance, stride, kv->head_size);
    }
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

#if !defined(SUM_OF_LEVELS)
static __attribute__((unused)) int32_t sum_of_levels(const int8_t *levels, size_t n) {
    int32_t sum = 0;

    for (size_t d = 0; d < n; d++)
        sum += levels[d];
    return sum;
}
#endif

static void attention_queries(AttentionQueries *queries, size_t at, const float *q, size_t n, const float *balance,
                              float factor) {
    const size_t head_size = queries->head_size, levels_bytes = attention_levels_bytes(head_size);

    for (size_t i = 0; i < n; i++, q += head_size) {
        int8_t *levels = queries->levels + (at + i) * levels_bytes;
        const float *head = q;
        float x[KV_HEAD_SIZE_MAX];

        if (balance) {
            for (size_t d = 0; d < head_size; d += N_LANES)
                lanes_store(x + d, lanes_mul(lanes_load(q + d), lanes_load(balance + d)));
            head = x;
        }
        queries->factors[at + i] = levels_of(head, head_size, levels) * factor;
        memset(levels + head_size, 0, levels_bytes - head_size);
        queries->starts[at + i] = ATTENTION_KEY_BIAS ? -ATTENTION_KEY_BIAS * sum_of_levels(levels, levels_bytes) : 0;
    }
}

/* --- the block ---------------------------------------------------------------------------------------------------- */

/* A group's numbers of one block, in scratch. */
typedef struct GroupScratch {
    float *scores;    /* [group][COLUMNS_MAX]: products in int32, then scores */
    uint8_t *weights; /* [group][ATTENTION_PARTS_MAX][WEIGHTS_PART_BYTES] */
    ValueScales *scales;
} GroupScratch;

static GroupScratch group_scratch(void *scratch) {
    float *scores = scratch;
    uint8_t *weights = (uint8_t *)(scores + ATTENTION_GROUP * COLUMNS_MAX);

    return (GroupScratch){ scores, weights,
                           (void *)(weights + (size_t)ATTENTION_GROUP * ATTENTION_PARTS_MAX * WEIGHTS_PART_BYTES) };
}

/* Turns the products of n row-heads with one part into scores, while these are in the first-level cache. */
LANES_INLINE void scores_of_group(float *scores, const AttentionParts *parts, size_t part, const ValueScales *scales,
                                  const float *factors, size_t n, float cap, const AttentionMask *masks,
                                  Greatest *greatest_of) {
    for (size_t i = 0; i < n; i++)
        scores_of_part(scores + i * COLUMNS_MAX, parts, part, scales, factors[i], cap, masks ? masks[i] : NULL,
                       part_positions(parts, masks, part), greatest_of, i);
}

/* Turns the products with one part into scores, by code of its own for each kind of cap and mask. */
LANES_INLINE void scores_with_part(const GroupScratch *group, const AttentionQueries *queries, size_t first, size_t n,
                                   const AttentionParts *parts, size_t part, const AttentionMask *masks,
                                   Greatest *greatest_of) {
    const float *factors = queries->factors + first;
    float *scores = group->scores + part * KV_BLOCK;

    if (queries->cap > 0)
        scores_of_group(scores, parts, part, group->scales, factors, n, queries->cap, masks, greatest_of);
    else if (masks)
        scores_of_group(scores, parts, part, group->scales, factors, n, 0, masks, greatest_of);
    else
        scores_of_group(scores, parts, part, group->scales, factors, n, 0, NULL, greatest_of);
}

/* Turns the scores of n row-heads into weights, and writes units and normalizers. */
LANES_INLINE void weights_of_group(const GroupScratch *group, size_t n, const AttentionParts *parts,
                                   const AttentionMask *masks, const Greatest *greatest_of, const AttentionSums *sums) {
    units_of((const float(*)[N_LANES])greatest_of->scores, n, sums->score_units);
    units_of((const float(*)[N_LANES])greatest_of->values, n, sums->value_units);
    for (size_t i = 0; i < n; i++)
        weights_of(group->scores + i * COLUMNS_MAX, parts, group->scales, masks,
                   group->weights + i * ATTENTION_PARTS_MAX * WEIGHTS_PART_BYTES, sums, i);
}

/* Multiplies levels by the first n_positions keys of a part, or by more; fetches other keys if the set can. */
LANES_INLINE void multiply_keys(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                                const uint8_t *keys, size_t n_positions, size_t head_size, int32_t *sums,
                                const uint8_t *fetch) {
#if defined(PRODUCTS_OF_FIRST)
    products_of_first_keys(levels, levels_bytes, starts, n, keys, n_positions, head_size, sums, COLUMNS_MAX, fetch);
#else
    products_of_keys(levels, levels_bytes, starts, n, keys, head_size, sums, COLUMNS_MAX);
#endif
}

/* Multiplies weights by the values of all parts, n_last of the last one, or more; weights behind these are 0. */
LANES_INLINE void multiply_values(const uint8_t *weights, size_t n, const int8_t *const *values, size_t n_parts,
                                  size_t n_last, size_t head_size, int32_t *outputs, const int8_t *const *fetch) {
    const size_t stride_bytes = (size_t)ATTENTION_PARTS_MAX * WEIGHTS_PART_BYTES;

#if defined(PRODUCTS_OF_FIRST)
    products_of_first_values(weights, stride_bytes, n, values, n_parts, n_last, head_size, outputs, fetch);
#else
    products_of_values(weights, stride_bytes, n, values, n_parts, head_size, outputs);
#endif
}

static void attention_block(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts,
                            const AttentionMask *masks, void *scratch, const AttentionSums *sums) {
    const GroupScratch group = group_scratch(scratch);
    const size_t head_size = queries->head_size, levels_bytes = attention_levels_bytes(head_size);
    const bool is_fetching = parts->n_next;
    Greatest greatest_of;
    const int8_t *values[ATTENTION_PARTS_MAX], *next_values[ATTENTION_PARTS_MAX];

    assert(n <= ATTENTION_GROUP && n <= UNIT_ROWS);
    value_scales(group.scales, parts, masks, n);
    for (size_t part = 0; part < parts->n; part++) {
        float *scores = group.scores + part * KV_BLOCK;

        values[part] = parts->at[part].values;
        next_values[part] = is_fetching ? parts->next[MIN(part, parts->n_next - 1)].values : NULL;
        multiply_keys(queries->levels + first * levels_bytes, levels_bytes, queries->starts + first, n,
                      parts->at[part].keys, part_positions(parts, masks, part), head_size, (int32_t *)(void *)scores,
                      is_fetching ? parts->next[MIN(part, parts->n_next - 1)].keys : NULL);
        scores_with_part(&group, queries, first, n, parts, part, masks, &greatest_of);
    }
    weights_of_group(&group, n, parts, masks, &greatest_of, sums);
    multiply_values(group.weights, n, values, parts->n, part_positions(parts, masks, parts->n - 1), head_size,
                    sums->outputs, is_fetching ? next_values : NULL);
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
            Lanes total = lanes_load(to + d);

            EACH_PART (p) {
                const PartI whole = *(const PartILoose *)(outputs + d + p * LANES_PART);

                total.part[p] =
                    __builtin_convertvector(whole, PartF) * part_of(factor) + total.part[p] * part_of(shrink);
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

#include "backends/cpu/attention/attention_phases.h"

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* n is a multiple of KV_BLOCK. */
static void attention_store_weights(const int32_t *w, size_t n, uint8_t *weights) {
    for (size_t at = 0; at < n; at += KV_BLOCK, weights += WEIGHTS_PART_BYTES) {
        PartI part[KV_BLOCK / N_LANES][LANES_PARTS];

        memcpy(part, w + at, sizeof(part));
        store_part_weights(weights, (const PartI(*)[LANES_PARTS])part);
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
    .keys = attention_keys,
    .weights = attention_weights,
    .values = attention_values,
    .add = attention_add,
    .end = attention_end,
    .products_of_keys = products_of_keys,
    .products_of_values = products_of_values,
    .store_weights = attention_store_weights,
};

#endif
