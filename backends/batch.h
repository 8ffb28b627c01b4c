// SPDX-License-Identifier: Apache-2.0
/* The rows of one step: the description that every part of a step shares, from its maker to the device. */
#ifndef COORDGEN_BACKENDS_BATCH_H
#define COORDGEN_BACKENDS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/min_max.h"

#define BATCH_SEQUENCES_MAX 64
#define BATCH_SLOTS_MAX 63 /* rows of a sequence outside its cache */
#define BATCH_NO_PARENT UINT32_MAX
#define BATCH_IN_PLACE (-1)

/* Rows [first, first + n) of a batch. */
typedef struct BatchRange {
    size_t first, n;
} BatchRange;

/* Returns the rows that both ranges have; n is 0 if there are none. */
static inline BatchRange batch_range_common(BatchRange a, BatchRange b) {
    const size_t a_end = a.first + a.n, b_end = b.first + b.n, first = MAX(a.first, b.first), end = MIN(a_end, b_end);

    return (BatchRange){ first, end > first ? end - first : 0 };
}

typedef struct BatchRow {
    uint32_t position; /* logical, in its sequence */
    /* The row of the batch at the previous position, which may be one that an earlier step computed. BATCH_NO_PARENT:
     * the previous position is in the sequence's cache. */
    uint32_t parent;
    uint32_t number;   /* index among the rows that its sequence began the step with; dropped rows don't change it */
    uint16_t sequence; /* index of the sequence */
    /* Place of the row's keys and values. BATCH_IN_PLACE: in the cache at the row's position; its parent's are in place
     * too. Otherwise: this position of the sequence's side block, as another row of the cache may have the same
     * position. */
    int16_t slot;
} BatchRow;

/* A sequence as a device sees it. */
typedef struct BatchSequence {
    /* The cache: block b holds the device's kv_block_positions positions from b * kv_block_positions on. */
    void *const *blocks;
    void *side;      /* one more block, for the rows that have a slot; NULL: no row has one */
    BatchRange rows; /* first those in place in order of positions, then the others, each after its parent */
} BatchSequence;

typedef struct Batch {
    uint32_t *tokens; /* [n_rows] */
    BatchRow *rows;   /* [n_rows] */
    size_t n_rows;
    /* Rows of open trees that earlier steps have computed, after all others. Nobody computes them again; attention
     * passes them along `parent`. */
    BatchRange earlier;
    BatchSequence *sequences; /* [n_sequences], in order of first rows; every sequence has rows */
    size_t n_sequences;
} Batch;

/* Appends a sequence of n_rows consecutive rows. Their tokens are left to the caller. The arrays must have room. */
static inline void batch_add_chain(Batch *batch, void *const *blocks, size_t position, size_t n_rows) {
    for (size_t i = 0; i < n_rows; i++)
        batch->rows[batch->n_rows + i] = (BatchRow){
            .position = (uint32_t)(position + i),
            .parent = i ? (uint32_t)(batch->n_rows + i - 1) : BATCH_NO_PARENT,
            .number = (uint32_t)i,
            .sequence = (uint16_t)batch->n_sequences,
            .slot = BATCH_IN_PLACE,
        };
    batch->sequences[batch->n_sequences++] = (BatchSequence){ .blocks = blocks, .rows = { batch->n_rows, n_rows } };
    batch->n_rows += n_rows;
}

/* Returns how many of a tree's n_rows rows are in place: the leading ones, each of which follows the one before. */
static inline size_t batch_tree_in_place(const int16_t *parents, size_t n_rows) {
    size_t n = 1;

    while (n < n_rows && parents[n] == (int16_t)(n - 1))
        n++;
    return n;
}

/* Appends a sequence whose rows form a tree: row i follows row parents[i], an earlier one; the first row follows the
 * sequence. At most BATCH_SLOTS_MAX rows are not in place. */
static inline void batch_add_tree(Batch *batch, void *const *blocks, void *side, size_t position,
                                  const int16_t *parents, size_t n_rows) {
    const size_t first = batch->n_rows, n_in_place = batch_tree_in_place(parents, n_rows);

    batch_add_chain(batch, blocks, position, n_rows);
    for (size_t i = n_in_place; i < n_rows; i++) {
        BatchRow *row = &batch->rows[first + i];

        row->parent = (uint32_t)(first + (size_t)parents[i]);
        row->position = batch->rows[row->parent].position + 1;
        row->slot = (int16_t)(i - n_in_place);
    }
    if (n_in_place < n_rows)
        batch->sequences[batch->n_sequences - 1].side = side;
}

/* Appends rows [n_before, n_before + n_rows) of a tree that stays open; earlier steps computed the rows before them.
 * parents covers the whole tree. Row 0 is in place, because no other row of the tree can have its position. All others
 * have slots, because the next step may add another row at any position. */
static inline void batch_add_open_tree(Batch *batch, void *const *blocks, void *side, size_t position,
                                       const int16_t *parents, size_t n_before, size_t n_rows) {
    const size_t earlier = batch->earlier.first + batch->earlier.n, first = batch->n_rows;

    for (size_t i = 0; i < n_before + n_rows; i++) {
        BatchRow *row = &batch->rows[i < n_before ? earlier + i : first + i - n_before];

        *row = (BatchRow){ .position = (uint32_t)position,
                           .parent = BATCH_NO_PARENT,
                           .number = (uint32_t)(i < n_before ? i : i - n_before),
                           .sequence = (uint16_t)batch->n_sequences,
                           .slot = BATCH_IN_PLACE };
        if (!i)
            continue;
        row->parent = (uint32_t)((size_t)parents[i] < n_before ? earlier + (size_t)parents[i]
                                                               : first + (size_t)parents[i] - n_before);
        row->position = batch->rows[row->parent].position + 1;
        row->slot = (int16_t)(i - 1);
    }
    batch->sequences[batch->n_sequences++] =
        (BatchSequence){ .blocks = blocks, .side = side, .rows = { first, n_rows } };
    batch->n_rows += n_rows;
    batch->earlier.n += n_before;
}

/* Returns how many rows among a row and its ancestors have slots: the last ones, at consecutive positions. 0 for a row
 * in place. */
static inline size_t batch_side_rows(const Batch *batch, size_t row) {
    size_t n = 0;

    for (; batch->rows[row].slot != BATCH_IN_PLACE; row = batch->rows[row].parent)
        n++;
    return n;
}

#endif
