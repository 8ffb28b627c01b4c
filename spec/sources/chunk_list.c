// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/chunk_list.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "spec/sources/drafter.h"

enum {
    PAGE = 4096
};

void chunk_list_init(ChunkList *list, size_t item_bytes, uint32_t shift) {
    *list = (ChunkList){ .item_bytes = (uint32_t)item_bytes, .shift = shift };
}

void chunk_list_deinit(ChunkList *list) {
    for (uint32_t i = 0; i < list->n_chunks; i++)
        accounted_block_deinit(&list->blocks[i]);
    free(list->chunks);
    free(list->blocks);
    chunk_list_init(list, list->item_bytes, list->shift);
}

static uint64_t chunk_bytes(const ChunkList *list) {
    return (uint64_t)list->item_bytes << list->shift;
}

static uint64_t rounded(uint64_t bytes) {
    return (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* Returns the bytes of the first chunk with room for n items: they double, from a page on. */
static uint64_t first_bytes(const ChunkList *list, uint64_t n) {
    uint64_t bytes = PAGE;

    while (bytes < n * list->item_bytes && bytes < chunk_bytes(list))
        bytes *= 2;
    return MIN(bytes, chunk_bytes(list));
}

uint64_t chunk_list_bytes_for(const ChunkList *list, uint64_t n) {
    uint64_t n_chunks = (n + (1u << list->shift) - 1) >> list->shift;
    uint64_t bytes = n_chunks > 1 ? n_chunks * rounded(chunk_bytes(list)) : n ? rounded(first_bytes(list, n)) : 0;

    return MAX(bytes, list->bytes);
}

/* Makes room to point at n chunks. The 24 bytes for each are not worth a charge. */
static int reserve_pointers(ChunkList *list, uint32_t n) {
    uint32_t room = list->n_chunks_room ? list->n_chunks_room : 4;
    uint8_t **chunks;
    AccountedBlock *blocks;

    if (n <= list->n_chunks_room)
        return 0;
    while (room < n)
        room *= 2;
    chunks = realloc(list->chunks, room * sizeof(*chunks));
    if (!chunks)
        return -ENOMEM;
    list->chunks = chunks;
    blocks = realloc(list->blocks, room * sizeof(*blocks));
    if (!blocks)
        return -ENOMEM;
    list->blocks = blocks;
    list->n_chunks_room = room;
    return 0;
}

static int block_init(ChunkList *list, AccountTable *accounts, uint64_t bytes, AccountedBlock *block) {
    int r = accounted_block_init(block, accounts, ACCOUNT_DRAFTDB, bytes);

    if (r)
        return r < 0 ? r : DRAFTER_E_MEMORY;
    list->bytes += block->len_bytes;
    return 0;
}

static int grow_first(ChunkList *list, AccountTable *accounts, uint64_t n) {
    uint64_t bytes = first_bytes(list, n);
    AccountedBlock block = { 0 };
    int r;

    r = block_init(list, accounts, bytes, &block);
    if (r)
        return r;
    if (list->n_chunks) {
        memcpy(block.data, list->chunks[0], list->n_items * list->item_bytes);
        list->bytes -= list->blocks[0].len_bytes;
        accounted_block_deinit(&list->blocks[0]);
    }
    list->blocks[0] = block;
    list->chunks[0] = block.data;
    list->n_chunks = 1;
    list->n_items = bytes / list->item_bytes;
    return 0;
}

int chunk_list_reserve(ChunkList *list, AccountTable *accounts, uint64_t n) {
    uint64_t chunk_items = 1u << list->shift;
    int r = reserve_pointers(list, (uint32_t)((n + chunk_items - 1) >> list->shift));

    if (!r && n > list->n_items && list->n_items < chunk_items)
        r = grow_first(list, accounts, n);
    while (!r && n > list->n_items) {
        r = block_init(list, accounts, chunk_bytes(list), &list->blocks[list->n_chunks]);
        if (r)
            break;
        list->chunks[list->n_chunks] = list->blocks[list->n_chunks].data;
        list->n_chunks++;
        list->n_items += chunk_items;
    }
    return r;
}
