// SPDX-License-Identifier: Apache-2.0
/* An array that grows at its end without being copied, in chunks of a power of two of items. Only the first chunk
 * begins small, with a page, and doubles. Memory is zeroed and charged on draftdb. */
#ifndef COORDGEN_SPEC_CHUNK_LIST_H
#define COORDGEN_SPEC_CHUNK_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/account.h"

/* Embedded; begins with chunk_list_init(). */
typedef struct ChunkList {
    uint8_t **chunks; /* data of the blocks, side by side for quick access */
    AccountedBlock *blocks;
    uint32_t n_chunks, n_chunks_room;
    uint32_t item_bytes, shift; /* 1 << shift items a chunk */
    uint64_t n_items;           /* items that there is room for */
    uint64_t bytes;
} ChunkList;

void chunk_list_init(ChunkList *list, size_t item_bytes, uint32_t shift);
void chunk_list_deinit(ChunkList *list);
/* Reserves room for n items in all. 0; -ENOMEM or DRAFTER_E_MEMORY: there is room for fewer, and all items are as they
 * were. */
int chunk_list_reserve(ChunkList *list, AccountTable *accounts, uint64_t n);
/* Returns the bytes that the list has once there is room for n items. */
uint64_t chunk_list_bytes_for(const ChunkList *list, uint64_t n);

/* Returns item i, below n_items; the item stays where it is once the first chunk is full. */
static inline void *chunk_list_at(const ChunkList *list, uint32_t i) {
    return list->chunks[i >> list->shift] + (size_t)(i & ((1u << list->shift) - 1)) * list->item_bytes;
}

#endif
