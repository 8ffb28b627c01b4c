// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/rows/attention_tail.h"

#include <assert.h>

static size_t block_values(size_t head_size) {
    return 2 * KV_BLOCK * head_size;
}

size_t attention_tail_floats(size_t head_size) {
    return ATTENTION_TAIL_BLOCKS * block_values(head_size) * sizeof(uint16_t) / sizeof(float);
}

void attention_tail_init(AttentionTail *tail, const Batch *batch, const KvHead *cache, const KvHead *side,
                         float *memory) {
    const size_t hd = cache->head_size;

    tail->batch = batch;
    tail->cache = *cache;
    tail->side = *side;
    tail->head = (KvHead){ .blocks = tail->blocks, .k = 0, .v = KV_BLOCK * hd, .head_size = hd };
    tail->is_filled = false;
    for (size_t i = 0; i < ATTENTION_TAIL_BLOCKS; i++)
        tail->blocks[i] = (uint16_t *)memory + i * block_values(hd);
}

/* Returns the position at which the path to the row leaves the cache. */
static size_t first_position(const Batch *batch, size_t row) {
    return batch->rows[row].position + (size_t)1 - batch_side_rows(batch, row);
}

size_t attention_tail_first(const Batch *batch, size_t row) {
    return first_position(batch, row) / KV_BLOCK;
}

/* Copies the cache's block in which the path leaves it. */
static void begin_at(AttentionTail *tail, size_t block) {
    const size_t len_bytes = KV_BLOCK * tail->head.head_size * sizeof(uint16_t);

    if (tail->is_filled && tail->head.first == block)
        return;
    tail->head.first = block;
    tail->is_filled = true;
    memcpy(kv_head_keys(&tail->head, block), kv_head_keys(&tail->cache, block), len_bytes);
    memcpy(kv_head_values(&tail->head, block), kv_head_values(&tail->cache, block), len_bytes);
    for (size_t i = 0; i < ATTENTION_TAIL_BLOCKS * KV_BLOCK; i++)
        tail->slots[i] = BATCH_IN_PLACE;
}

static void put(AttentionTail *tail, size_t position, int16_t slot) {
    int16_t *is = &tail->slots[position - tail->head.first * KV_BLOCK];

    if (*is == slot)
        return;
    if (slot == BATCH_IN_PLACE)
        kv_head_move(&tail->head, position, &tail->cache, position);
    else
        kv_head_move(&tail->head, position, &tail->side, (size_t)slot);
    *is = slot;
}

/**
 * attention_tail_set() - turn the blocks of one row into those of another
 *
 * The block in which the row's path leaves the cache is copied, and the rows on the path are put at their positions.
 * Rows shared with the previous path stay: rows in depth-first order change little. Positions after the row's own are
 * undefined.
 */
void attention_tail_set(AttentionTail *tail, size_t row) {
    const BatchRow *rows = tail->batch->rows;
    const size_t begin = first_position(tail->batch, row), block = begin / KV_BLOCK;

    assert(rows[row].slot != BATCH_IN_PLACE && rows[row].position < (block + ATTENTION_TAIL_BLOCKS) * KV_BLOCK);
    begin_at(tail, block);
    for (size_t position = block * KV_BLOCK; position < begin; position++)
        put(tail, position, BATCH_IN_PLACE);
    for (; rows[row].slot != BATCH_IN_PLACE; row = rows[row].parent)
        put(tail, rows[row].position, rows[row].slot);
}
