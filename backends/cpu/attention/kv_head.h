// SPDX-License-Identifier: Apache-2.0
/* Keys and values of one KV head in the cache: int8 with a scale for each position (docs/numbers.md, "Attention"). */
#ifndef COORDGEN_BACKENDS_CPU_ATTENTION_KV_HEAD_H
#define COORDGEN_BACKENDS_CPU_ATTENTION_KV_HEAD_H

#include <stddef.h>
#include <stdint.h>

enum {
    KV_BLOCK = 64, /* positions of a cache block, counted from logical position 0 */
    KV_HEAD_SIZE_MAX = 1024
};

/* Keys and values of a KV head. Positions [b * KV_BLOCK, (b + 1) * KV_BLOCK) are in block b. Head sizes are multiples
 * of 16. */
typedef struct KvHead {
    void *const *blocks;
    size_t k_bytes, v_bytes; /* offsets of the head's keys and values in every block */
    size_t head_size;
} KvHead;

/* The head's part of one block. */
typedef struct KvBlock {
    uint8_t *keys;       /* level of position j, channel d: byte [d / 4][j][d % 4], plus AttentionOps.key_bias */
    int8_t *values;      /* byte [j / 4][d][j % 4] */
    float *key_scales;   /* [KV_BLOCK] */
    float *value_scales; /* [KV_BLOCK] */
} KvBlock;

/* Returns the bytes of a position's keys, or of its values, in one KV head. */
static inline size_t kv_row_bytes(size_t head_size) {
    return head_size + sizeof(float);
}

/* Returns the head's part of the block that begins at `block`. */
static inline KvBlock kv_block_at(const KvHead *kv, void *block) {
    const size_t levels_bytes = KV_BLOCK * kv->head_size;
    uint8_t *keys = (uint8_t *)block + kv->k_bytes, *values = (uint8_t *)block + kv->v_bytes;

    return (KvBlock){
        .keys = keys,
        .values = (int8_t *)values,
        .key_scales = (float *)(void *)(keys + levels_bytes),
        .value_scales = (float *)(void *)(values + levels_bytes),
    };
}

/* Returns the offset of 4 channels from d on, within a block's keys. */
static inline size_t kv_key_offset(size_t position, size_t d) {
    return (d / 4 * KV_BLOCK + position) * 4;
}

/* Returns the offset of channel d within a block's values; the next channel is 4 bytes behind. */
static inline size_t kv_value_offset(size_t head_size, size_t position, size_t d) {
    return (position / 4 * head_size + d) * 4 + position % 4;
}

/* Copies keys and values from position `from_at` of one block to position `to_at` of another. */
static inline void kv_block_move(const KvBlock *to, size_t to_at, const KvBlock *from, size_t from_at,
                                 size_t head_size) {
    for (size_t d = 0; d < head_size; d += 4)
        for (size_t i = 0; i < 4; i++)
            to->keys[kv_key_offset(to_at, d) + i] = from->keys[kv_key_offset(from_at, d) + i];
    for (size_t d = 0; d < head_size; d++)
        to->values[kv_value_offset(head_size, to_at, d)] = from->values[kv_value_offset(head_size, from_at, d)];
    to->key_scales[to_at] = from->key_scales[from_at];
    to->value_scales[to_at] = from->value_scales[from_at];
}

#endif
