// SPDX-License-Identifier: Apache-2.0
/* The rows of one step: what every part of a step knows of them, from the one who makes it to the device. */
#ifndef COORDGEN_BACKENDS_BATCH_H
#define COORDGEN_BACKENDS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH_SEQUENCES_MAX 64
#define BATCH_NO_PARENT UINT32_MAX

typedef struct BatchRow {
    uint32_t position; /* logical, in its sequence */
    uint32_t parent;   /* the row of the batch at the position before; BATCH_NO_PARENT: the sequence has that already */
    uint32_t sequence; /* index of it */
    bool wants_logits;
} BatchRow;

/* What a device needs of a sequence. */
typedef struct BatchSequence {
    /* The cache: block b holds the device's kv_block_positions positions from b * kv_block_positions on. */
    void *const *blocks;
    size_t first, n_rows; /* its rows are [first, first + n_rows) of the batch, by rising positions */
} BatchSequence;

typedef struct Batch {
    uint32_t *tokens; /* [n_rows] */
    BatchRow *rows;   /* [n_rows] */
    size_t n_rows;
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
        };
    batch->sequences[batch->n_sequences++] = (BatchSequence){ blocks, batch->n_rows, n_rows };
    batch->n_rows += n_rows;
}

#endif
