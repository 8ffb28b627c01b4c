// SPDX-License-Identifier: Apache-2.0
/* The rows of one step: what every part of a step knows of them, from the one who makes it to the device. */
#ifndef COORDGEN_BACKENDS_BATCH_H
#define COORDGEN_BACKENDS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH_SEQUENCES_MAX 64
#define BATCH_SLOTS_MAX 63 /* rows of a sequence that are beside its cache */
#define BATCH_NO_PARENT UINT32_MAX
#define BATCH_IN_PLACE (-1)

typedef struct BatchRow {
    uint32_t position; /* logical, in its sequence */
    /* The row of the batch at the position before, or a row that an earlier step has computed; BATCH_NO_PARENT: the
     * sequence has that already. */
    uint32_t parent;
    uint32_t sequence; /* index of it */
    /* Where its keys and values are: BATCH_IN_PLACE: in the cache at its position, and so are its parent's; else at
     * this position of the sequence's side block: in the cache another row may have the row's position. */
    int16_t slot;
    bool wants_logits;
} BatchRow;

/* What a device needs of a sequence. */
typedef struct BatchSequence {
    /* The cache: block b holds the device's kv_block_positions positions from b * kv_block_positions on. */
    void *const *blocks;
    void *side; /* one more block, of the rows that have a slot; NULL: none has one */
    /* Its rows are [first, first + n_rows) of the batch: those in place by rising positions, one behind the other, then
     * the others, each behind its parent. */
    size_t first, n_rows;
} BatchSequence;

typedef struct Batch {
    uint32_t *tokens; /* [n_rows] */
    BatchRow *rows;   /* [n_rows] */
    size_t n_rows;
    /* Rows that earlier steps have computed, of trees that stay open: rows[first_earlier + i], behind all others.
     * Nobody computes them; they are passed on a way along `parent`. */
    size_t first_earlier, n_earlier;
    BatchSequence *sequences; /* [n_sequences], by their first row; each has rows */
    size_t n_sequences;
} Batch;

/* Rows of one sequence among some of a batch. */
typedef struct BatchPart {
    const BatchSequence *sequence;
    size_t first, n_rows; /* of the batch's; none: n_rows is 0 */
} BatchPart;

/* What is of sequence `index` in rows [first, first + n_rows). */
static inline BatchPart batch_part(const Batch *batch, size_t index, size_t first, size_t n_rows) {
    const BatchSequence *sequence = &batch->sequences[index];
    const size_t end = first + n_rows, sequence_end = sequence->first + sequence->n_rows;
    const size_t part_first = sequence->first > first ? sequence->first : first,
                 part_end = sequence_end < end ? sequence_end : end;

    return (BatchPart){ sequence, part_first, part_end > part_first ? part_end - part_first : 0 };
}

/* One more sequence, with n_rows rows behind all others; their places are filled but for tokens and logits. The arrays
 * have room. */
static inline void batch_add_chain(Batch *batch, void *const *blocks, size_t position, size_t n_rows) {
    for (size_t i = 0; i < n_rows; i++)
        batch->rows[batch->n_rows + i] = (BatchRow){
            .position = (uint32_t)(position + i),
            .parent = i ? (uint32_t)(batch->n_rows + i - 1) : BATCH_NO_PARENT,
            .sequence = (uint32_t)batch->n_sequences,
            .slot = BATCH_IN_PLACE,
        };
    batch->sequences[batch->n_sequences++] =
        (BatchSequence){ .blocks = blocks, .first = batch->n_rows, .n_rows = n_rows };
    batch->n_rows += n_rows;
}

/* How many of a tree's n_rows rows are in place: the first ones, each of which follows the one before. */
static inline size_t batch_tree_in_place(const int16_t *parents, size_t n_rows) {
    size_t n = 1;

    while (n < n_rows && parents[n] == (int16_t)(n - 1))
        n++;
    return n;
}

/* The same for a tree: row i follows row parents[i], an earlier one; the first one follows the sequence. At most
 * BATCH_SLOTS_MAX rows are not in place. */
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

/* The same for rows [n_before, n_before + n_rows) of a tree that stays open: those before them were computed by earlier
 * steps. parents: of the whole tree. Row 0 is in place, where no other row of the tree can be; all others have slots:
 * the next step may have another row at any position. */
static inline void batch_add_open_tree(Batch *batch, void *const *blocks, void *side, size_t position,
                                       const int16_t *parents, size_t n_before, size_t n_rows) {
    const size_t earlier = batch->first_earlier + batch->n_earlier, first = batch->n_rows;

    for (size_t i = 0; i < n_before + n_rows; i++) {
        BatchRow *row = &batch->rows[i < n_before ? earlier + i : first + i - n_before];

        *row = (BatchRow){ .position = (uint32_t)position,
                           .parent = BATCH_NO_PARENT,
                           .sequence = (uint32_t)batch->n_sequences,
                           .slot = BATCH_IN_PLACE };
        if (!i)
            continue;
        row->parent = (uint32_t)((size_t)parents[i] < n_before ? earlier + (size_t)parents[i]
                                                               : first + (size_t)parents[i] - n_before);
        row->position = batch->rows[row->parent].position + 1;
        row->slot = (int16_t)(i - 1);
    }
    batch->sequences[batch->n_sequences++] =
        (BatchSequence){ .blocks = blocks, .side = side, .first = first, .n_rows = n_rows };
    batch->n_rows += n_rows;
    batch->n_earlier += n_before;
}

/* How many rows on the way to a row have slots, itself included: the last ones, at positions that follow each other.
 * None for a row in place. */
static inline size_t batch_side_rows(const Batch *batch, size_t row) {
    size_t n = 0;

    for (; batch->rows[row].slot != BATCH_IN_PLACE; row = batch->rows[row].parent)
        n++;
    return n;
}

#endif
