// SPDX-License-Identifier: Apache-2.0
/* A block's sums on AMX. Tiles multiply while the vector units turn scores into weights. Row-heads are taken in steps
 * of up to 16. Between the rows of a step stand rounds of tiles: values of the step before, keys of the next one. The
 * including file includes products_amx.h and attention_impl.h before. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_AMX_IMPL_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_ATTENTION_AMX_IMPL_H

#include "backends/cpu/attention/attention_impl.h"
#include "backends/cpu/attention/products_amx.h"

enum {
    STEP_SCORES = TILE_ROWS * COLUMNS_MAX,
    STEP_WEIGHTS_BYTES = TILE_ROWS * ATTENTION_PARTS_MAX * WEIGHTS_PART_BYTES
};

/* Layout of scratch. Steps use scores and weights alternately. */
typedef struct TileScratch {
    float scores[2][STEP_SCORES];
    uint8_t weights[2][STEP_WEIGHTS_BYTES];
    TileSums starts;
    PlaneSums planes[2];
    ValueScales scales;
} TileScratch;

_Static_assert(sizeof(TileScratch) <= ATTENTION_GROUP * COLUMNS_MAX * (sizeof(float) + sizeof(int16_t)),
               "attention_scratch_bytes()");

/* A call. */
typedef struct TileBlock {
    const AttentionQueries *queries;
    const AttentionParts *parts;
    const AttentionSums *sums;
    const uint8_t *part_keys[ATTENTION_PARTS_MAX];
    const int8_t *part_values[ATTENTION_PARTS_MAX];
    TileScratch *scratch;
    size_t first, n, rows; /* row-heads: the first, all, those of a step */
    KeyProducts keys;
    ValueProducts values;
} TileBlock;

/* Returns the first row-head of a step. The last step is as high as the others, and repeats row-heads if need be. */
static inline size_t step_first(const TileBlock *block, size_t step) {
    return MIN(step * block->rows, block->n - block->rows);
}

/* Makes the step's products of keys the next ones. */
static void keys_begin(TileBlock *block, size_t step) {
    const AttentionQueries *queries = block->queries;
    const size_t at = block->first + step_first(block, step), head_size = queries->head_size,
                 levels_bytes = attention_levels_bytes(head_size);

    starts_spread(queries->starts + at, block->rows, &block->scratch->starts);
    block->keys = (KeyProducts){
        .levels = queries->levels + at * levels_bytes,
        .levels_bytes = levels_bytes,
        .starts = (const TileSums *)&block->scratch->starts,
        .keys = block->part_keys,
        .n_parts = block->parts->n,
        .head_size = head_size,
        .sums = (int32_t *)(void *)block->scratch->scores[step % 2],
        .stride = COLUMNS_MAX,
    };
}

/* Makes the step's products of values the next ones. */
static void values_begin(TileBlock *block, size_t step) {
    const size_t head_size = block->queries->head_size;

    block->values = (ValueProducts){
        .weights = block->scratch->weights[step % 2],
        .stride_bytes = (size_t)ATTENTION_PARTS_MAX * WEIGHTS_PART_BYTES,
        .rows = block->rows,
        .values = block->part_values,
        .n_parts = block->parts->n,
        .head_size = head_size,
        .outputs = block->sums->outputs + step_first(block, step) * head_size,
        .planes = block->scratch->planes,
    };
}

/* Returns the rounds that are left. */
static size_t rounds_left(const TileBlock *block, bool has_values, bool has_keys) {
    const size_t n_parts = block->parts->n, head_size = block->queries->head_size;

    return (has_values ? value_rounds(n_parts, head_size) : 0) + (has_keys ? key_rounds(n_parts, head_size) : 0);
}

/* Makes up to n of the rounds that are left. */
static __attribute__((noinline)) void rounds(TileBlock *block, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (value_rounds_left(&block->values))
            value_round(&block->values);
        else if (key_rounds_left(&block->keys))
            key_round(&block->keys);
        else
            return;
    }
}

/* Makes the scores and weights of a step's row-heads, and n_rounds behind each one's weights. */
LANES_INLINE void step_weights(TileBlock *block, size_t step, float cap, const AttentionMask *masks, size_t n_rounds) {
    const size_t first = step_first(block, step), end = first + block->rows;
    const float *factors = block->queries->factors + block->first;
    const AttentionSums *sums = block->sums;
    const ValueScales *scales = &block->scratch->scales;
    float *scores = block->scratch->scores[step % 2];
    uint8_t *weights = block->scratch->weights[step % 2];
    Greatest greatest_of;

    for (size_t i = first; i < end; i++)
        for (size_t part = 0; part < block->parts->n; part++)
            scores_of_part(scores + (i - first) * COLUMNS_MAX + part * KV_BLOCK, block->parts, part, scales, factors[i],
                           cap, masks ? masks[i] : NULL, part_positions(block->parts, masks, part), &greatest_of,
                           i - first);
    units_of((const float(*)[N_LANES])greatest_of.scores, block->rows, sums->score_units + first);
    units_of((const float(*)[N_LANES])greatest_of.values, block->rows, sums->value_units + first);
    for (size_t i = first; i < end; i++) {
        weights_of(scores, block->parts, scales, masks, weights, sums, i);
        rounds(block, n_rounds);
        scores += COLUMNS_MAX;
        weights += ATTENTION_PARTS_MAX * WEIGHTS_PART_BYTES;
    }
}

static void tile_block(const AttentionQueries *queries, size_t first, size_t n, const AttentionParts *parts,
                       const AttentionMask *masks, void *scratch, const AttentionSums *sums) {
    const size_t n_steps = (n + TILE_ROWS - 1) / TILE_ROWS;
    TileBlock block = { .queries = queries, .parts = parts, .sums = sums, .scratch = scratch, .first = first, .n = n };

    if (n < TILES_FROM) {
        attention_block(queries, first, n, parts, masks, scratch, sums);
        return;
    }
    assert(n <= ATTENTION_GROUP);
    block.rows = (n + n_steps - 1) / n_steps;
    for (size_t part = 0; part < parts->n; part++) {
        block.part_keys[part] = parts->at[part].keys;
        block.part_values[part] = parts->at[part].values;
    }
    tiles_configure(block.rows, queries->head_size);
    keys_begin(&block, 0);
    rounds(&block, SIZE_MAX);
    value_scales(&block.scratch->scales, parts, masks, n);
    for (size_t step = 0; step < n_steps; step++) {
        const bool has_values = step, has_keys = step + 1 < n_steps;
        size_t n_rounds;

        if (has_keys)
            keys_begin(&block, step + 1);
        n_rounds = (rounds_left(&block, has_values, has_keys) + block.rows - 1) / block.rows;
        if (queries->cap > 0)
            step_weights(&block, step, queries->cap, masks, n_rounds);
        else if (masks)
            step_weights(&block, step, 0, masks, n_rounds);
        else
            step_weights(&block, step, 0, NULL, n_rounds);
        if (has_values)
            values_join(&block.values);
        values_begin(&block, step);
    }
    rounds(&block, SIZE_MAX);
    tiles_release();
    values_join(&block.values);
}

#endif
