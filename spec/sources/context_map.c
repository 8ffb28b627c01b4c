// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/context_map.h"

#include <assert.h>
#include <string.h>

#include "base/hash_key.h"

enum {
    CAPACITY_MIN = 64
};

/* newer, older: entry + 1, or 0. The value follows. */
typedef struct Entry {
    uint64_t key;
    uint32_t newer, older;
} Entry;

struct ContextMap {
    AccountTable *accounts;
    HashKey key;
    AccountedBlock block;
    size_t entry_bytes;
    unsigned char *entries;
    uint32_t *slots; /* twice the capacity; entry + 1, or 0 */
    uint32_t capacity, limit, n;
    uint32_t newest, oldest; /* entry + 1, or 0 */
};

int context_map_new(AccountTable *accounts, size_t value_bytes, uint32_t limit, ContextMap **mapp) {
    _cleanup_(context_map_freep) ContextMap *map = calloc(1, sizeof(*map));
    int r;

    assert(limit >= CAPACITY_MIN && !(limit & (limit - 1)) && limit <= 1u << 30);
    if (!map)
        return -ENOMEM;
    r = hash_key_init(&map->key);
    if (r < 0)
        return r;
    map->accounts = accounts;
    map->entry_bytes = sizeof(Entry) + ((value_bytes + 7) & ~(size_t)7);
    map->limit = limit;
    *mapp = steal(&map);
    return 0;
}

void context_map_free(ContextMap *map) {
    if (!map)
        return;
    accounted_block_deinit(&map->block);
    free(map);
}

static Entry *entry_of(const ContextMap *map, uint32_t number) {
    return (Entry *)(map->entries + (size_t)(number - 1) * map->entry_bytes);
}

static uint32_t home_of(const ContextMap *map, uint64_t key) {
    return (uint32_t)hash_key_u64(&map->key, key) & (2 * map->capacity - 1);
}

/* Returns the slot that has the key, or the free one where the key belongs. */
static uint32_t slot_of(const ContextMap *map, uint64_t key) {
    uint32_t at = home_of(map, key);

    while (map->slots[at] && entry_of(map, map->slots[at])->key != key)
        at = (at + 1) & (2 * map->capacity - 1);
    return at;
}

const void *context_map_find(const ContextMap *map, uint64_t key) {
    uint32_t number = map->n ? map->slots[slot_of(map, key)] : 0;

    return number ? entry_of(map, number) + 1 : NULL;
}

static void unlink_entry(ContextMap *map, uint32_t number) {
    const Entry *entry = entry_of(map, number);

    if (entry->newer)
        entry_of(map, entry->newer)->older = entry->older;
    else
        map->newest = entry->older;
    if (entry->older)
        entry_of(map, entry->older)->newer = entry->newer;
    else
        map->oldest = entry->newer;
}

static void link_newest(ContextMap *map, uint32_t number) {
    Entry *entry = entry_of(map, number);

    entry->newer = 0;
    entry->older = map->newest;
    if (map->newest)
        entry_of(map, map->newest)->newer = number;
    else
        map->oldest = number;
    map->newest = number;
}

/* Frees a slot. Keys behind it move up unless that brings them before their home slot: no search ends too early.
 * base/hash_table has no way to remove keys, and its look-ups would need more code here than these loops. */
static void slot_free(ContextMap *map, uint32_t hole) {
    uint32_t mask = 2 * map->capacity - 1;

    for (uint32_t at = (hole + 1) & mask; map->slots[at]; at = (at + 1) & mask) {
        uint32_t home = home_of(map, entry_of(map, map->slots[at])->key);

        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        map->slots[hole] = map->slots[at];
        hole = at;
    }
    map->slots[hole] = 0;
}

static int grow(ContextMap *map) {
    uint32_t capacity = map->capacity ? 2 * map->capacity : CAPACITY_MIN;
    size_t entries_bytes = capacity * map->entry_bytes;
    AccountedBlock block, old = map->block;
    int r = accounted_block_init(&block, map->accounts, ACCOUNT_DRAFTDB,
                                 entries_bytes + 2 * (size_t)capacity * sizeof(*map->slots));

    if (r)
        return r < 0 ? r : DRAFTER_E_MEMORY;
    if (map->n)
        memcpy(block.data, map->entries, map->n * map->entry_bytes);
    map->block = block;
    map->capacity = capacity;
    map->entries = block.data;
    map->slots = (uint32_t *)(map->entries + entries_bytes);
    for (uint32_t number = 1; number <= map->n; number++)
        map->slots[slot_of(map, entry_of(map, number)->key)] = number;
    accounted_block_deinit(&old);
    return 0;
}

/* Returns the number of a new entry that is in no list. */
static int take_entry(ContextMap *map, uint32_t *numberp) {
    int r;

    if (map->n == map->limit) {
        *numberp = map->oldest;
        slot_free(map, slot_of(map, entry_of(map, map->oldest)->key));
        unlink_entry(map, *numberp);
        return 0;
    }
    if (map->n == map->capacity) {
        r = grow(map);
        if (r)
            return r;
    }
    *numberp = ++map->n;
    return 0;
}

int context_map_put(ContextMap *map, uint64_t key, void **valuep) {
    uint32_t number = map->n ? map->slots[slot_of(map, key)] : 0;
    int r;

    if (number) {
        unlink_entry(map, number);
    } else {
        r = take_entry(map, &number);
        if (r)
            return r;
        memset(entry_of(map, number), 0, map->entry_bytes);
        entry_of(map, number)->key = key;
        map->slots[slot_of(map, key)] = number;
    }
    link_newest(map, number);
    *valuep = entry_of(map, number) + 1;
    return 0;
}

static const float class_from[CONTEXT_CLASSES] = { 0, 0.02F, 0.07F, 0.15F, 0.3F, 0.5F, 0.7F, 0.9F };

/* A NaN has class 0. */
uint16_t context_class(float probability) {
    uint16_t class = 0;

    while (class + 1 < CONTEXT_CLASSES && probability >= class_from[class + 1])
        class ++;
    return class;
}

float context_class_typical(uint16_t class) {
    float above = class + 1 < CONTEXT_CLASSES ? class_from[class + 1] : 1;

    return (class_from[class] + above) / 2;
}
