// SPDX-License-Identifier: Apache-2.0
/* Attention in integers: the operators on queries, keys and values of one KV head. docs/numbers.md gives the contract.
 * Products and their sums are exact, so that any split over positions, rows and threads gives the same bits. One
 * source (attention_impl.h) is compiled for each instruction set, with the two integer products of that set
 * (products_*.h). */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/attention/kv_head.h"

enum {
    ATTENTION_BLOCK = 256,      /* positions whose weights have one unit, counted from logical position 0 */
    ATTENTION_PARTS_MAX = 5,    /* cache blocks of such a block, and the side block of a tree's rows */
    ATTENTION_LEVELS_ALIGN = 64 /* bytes: a row-head's levels begin at a multiple and end at one, filled with zeros */
};

/* Query heads of rows ("row-heads") that share a KV head. */
typedef struct AttentionQueries {
    size_t head_size;
    float cap;       /* soft cap x log2(e); 0: scores are not capped */
    int8_t *levels;  /* [n][attention_levels_bytes()] */
    float *factors;  /* [n]: product of levels and key scale x factor = score, a power of two's exponent */
    int32_t *starts; /* [n]: - key_bias x the sum of the levels */
} AttentionQueries;

/* The cache blocks of one block of positions, in any order. */
typedef struct AttentionParts {
    size_t n, n_last; /* parts; positions of the last one that masks may name, a multiple of 16, or 0: all */
    size_t n_next;
    KvBlock at[ATTENTION_PARTS_MAX];
    KvBlock next[ATTENTION_PARTS_MAX]; /* [n_next]: of the thread's next call, which some builds fetch meanwhile */
} AttentionParts;

/* Positions of each part that a row-head reads, as bits. */
typedef uint64_t AttentionMask[ATTENTION_PARTS_MAX];

/* Sums of row-heads over the positions of one block: exact integers and their units. */
typedef struct AttentionSums {
    float *score_units;   /* [n]: S, the normaliser's unit is 2^(S - 22); -infinity: no position was read */
    float *value_units;   /* [n]: T, the outputs' unit is 2^T / 32639 */
    int32_t *normalizers; /* [n] */
    int32_t *outputs;     /* [n][head_size] */
} AttentionSums;

/* Sums of row-heads over blocks. */
typedef struct AttentionTotals {
    float *units;       /* [n]: R; begins as -infinity */
    float *normalizers; /* [n]: begins as 0 */
    float *outputs;     /* [n][head_size]: begin as 0 */
} AttentionTotals;

typedef struct AttentionOps {
    const char *name;
    uint32_t need;    /* CPU_* bits */
    size_t group;     /* row-heads that one call of block() takes at most; as many are best */
    uint8_t key_bias; /* constant that is added to levels of keys in the cache */

    /* Stores positions [position, position + n) of the cache from rows k + j * stride, v + j * stride. balance
     * f32[head_size], powers of two; NULL: ones. */
    void (*store)(const KvHead *kv, size_t position, const float *k, const float *v, const float *balance,
                  size_t stride, size_t n);
    /* Makes row-heads [at, at + n) of queries from q f32[n][head_size], behind rotary positions. factor: the
     * attention's scale x log2(e), or with a soft cap 2 x scale / soft cap x log2(e). */
    void (*queries)(AttentionQueries *queries, size_t at, const float *q, size_t n, const float *balance, float factor);
    /* Sums a block's positions for row-heads [first, first + n), n <= group. masks [n]; NULL: all read all positions.
     * Content of positions that nobody reads may be anything. scratch: attention_scratch_bytes(), aligned to 64. */
    void (*block)(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts,
                  const AttentionMask *masks, void *scratch, const AttentionSums *sums);
    /* The phases of block(), for a device whose unit multiplies: products of keys, weights, products of values. They
     * share a scratch as block() has it, and all positions of all parts are computed. */
    void (*keys)(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts, void *scratch);
    void (*weights)(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts,
                    const AttentionMask *masks, void *scratch, const AttentionSums *sums);
    void (*values)(size_t n, const AttentionParts *parts, size_t head_size, void *scratch, const AttentionSums *sums);
    /* Adds a block's sums to the totals of n row-heads, both from their first on. Blocks come in rising order. */
    void (*add)(const AttentionSums *sums, size_t n, size_t head_size, const AttentionTotals *totals);
    /* Writes the outputs of n row-heads, f32[n][head_size]; zeros for one without any position. */
    void (*end)(const AttentionTotals *totals, size_t n, size_t head_size, float *out);

    /* The integer products by themselves, for tests and benches: products_*.h. */
    void (*products_of_keys)(const int8_t *levels, size_t levels_bytes, const int32_t *starts, size_t n,
                             const uint8_t *keys, size_t head_size, int32_t *sums, size_t stride);
    void (*products_of_values)(const uint8_t *weights, size_t stride_bytes, size_t n, const int8_t *const *values,
                               size_t n_parts, size_t head_size, int32_t *outputs);
    void (*store_weights)(const int32_t *w, size_t n, uint8_t *weights); /* n: a multiple of KV_BLOCK */
} AttentionOps;

/* Returns the bytes of a row-head's levels. */
static inline size_t attention_levels_bytes(size_t head_size) {
    return (head_size + ATTENTION_LEVELS_ALIGN - 1) / ATTENTION_LEVELS_ALIGN * ATTENTION_LEVELS_ALIGN;
}

const AttentionOps *attention_select(uint32_t cpu);
size_t attention_n_ops(void);
const AttentionOps *attention_ops_at(size_t index);
/* Returns the scratch of block(). */
size_t attention_scratch_bytes(size_t group);

#endif
