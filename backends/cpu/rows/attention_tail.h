// SPDX-License-Identifier: Apache-2.0
/* The last blocks that a row beside the cache attends to: copies, in which the rows on its way stand at their
 * positions. So attention reads blocks in logical order, as for any other row. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_TAIL_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_TAIL_H

#include "backends/batch.h"
#include "backends/cpu/rows/row_ops.h"

enum {
    ATTENTION_TAIL_BLOCKS = 2, /* that a way of BATCH_SLOTS_MAX rows may touch */
};

/* Of one KV head of one sequence in one layer. */
typedef struct AttentionTail {
    KvHead head; /* from block head.first on */
    void *blocks[ATTENTION_TAIL_BLOCKS];
    const Batch *batch;
    KvHead cache, side;
    bool is_filled;
    int16_t slots[ATTENTION_TAIL_BLOCKS * KV_BLOCK]; /* whose keys and values are there; BATCH_IN_PLACE: the cache's */
} AttentionTail;

size_t attention_tail_floats(size_t head_size);
/* memory: f32[attention_tail_floats()], aligned to 64; anything. */
void attention_tail_init(AttentionTail *tail, const Batch *batch, const KvHead *cache, const KvHead *side,
                         float *memory);
/* The first block that is not the cache's for this row, which is beside it, and for those on its way. */
size_t attention_tail_first(const Batch *batch, size_t row);
/* Turns the blocks into those of the row: tail->head, from attention_tail_first() on. */
void attention_tail_set(AttentionTail *tail, size_t row);

#endif
