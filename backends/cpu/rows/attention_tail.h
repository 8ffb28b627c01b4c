// SPDX-License-Identifier: Apache-2.0
/* Copies of the last blocks that a row outside the cache attends to, with its ancestors' keys and values at their
 * positions. Attention thereby reads blocks in logical order, as for any other row. */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_TAIL_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_TAIL_H

#include "backends/batch.h"
#include "backends/cpu/rows/row_ops.h"

enum {
    ATTENTION_TAIL_BLOCKS = 2, /* blocks that a path of BATCH_SLOTS_MAX rows may touch */
};

/* Tail blocks of one KV head of one sequence in one layer. */
typedef struct AttentionTail {
    KvHead head; /* from block head.first on */
    void *blocks[ATTENTION_TAIL_BLOCKS];
    const Batch *batch;
    KvHead cache, side;
    bool is_filled;
    /* row slots whose keys and values are there; BATCH_IN_PLACE: the cache's */
    int16_t slots[ATTENTION_TAIL_BLOCKS * KV_BLOCK];
} AttentionTail;

size_t attention_tail_floats(size_t head_size);
/* memory: f32[attention_tail_floats()], aligned to 64; content undefined. */
void attention_tail_init(AttentionTail *tail, const Batch *batch, const KvHead *cache, const KvHead *side,
                         float *memory);
/* Returns the first block that differs from the cache for this row, which has a slot, and for its ancestors. */
size_t attention_tail_first(const Batch *batch, size_t row);
/* Fills the blocks with those of the row: tail->head, from attention_tail_first() on. */
void attention_tail_set(AttentionTail *tail, size_t row);

#endif
