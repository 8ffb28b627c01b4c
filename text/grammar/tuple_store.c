// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/tuple_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/min_max.h"

enum {
    LOAD_PERCENT = 60,
    FIRST_TUPLES = 16,
};

/* --- slots -------------------------------------------------------------------------------------------------------- */

/* A tuple that is looked for. */
typedef struct Wanted {
    const TupleStore *store;
    const uint32_t *words;
    size_t n_words;
    uint32_t check;
} Wanted;

/* Hashes two words at a time. The check is as good as the whole hash where a store has fewer than 2^32 tuples, and a
 * growing table needs no look at the tuples. */
static Wanted wanted_of(const TupleStore *store, const uint32_t *words, size_t n_words) {
    const HashKey *key = &store->table.key;
    uint64_t hash = key->seed ^ n_words;
    size_t i = 0;

    for (; i + 1 < n_words; i += 2)
        hash = hash_key_fold(key, hash ^ (words[i] | (uint64_t)words[i + 1] << 32));
    hash ^= i < n_words ? words[i] : 0;
    return (Wanted){ store, words, n_words, (uint32_t)(hash_key_fold(key, hash_key_fold(key, hash)) >> 32) };
}

static inline HashSlotState look(const void *slots, uint32_t at, const void *wanted) {
    const TupleSlot *slot = (const TupleSlot *)slots + at;
    const Wanted *tuple = wanted;
    const uint32_t *held;
    size_t n_held;

    if (slot->id == UINT32_MAX)
        return HASH_SLOT_FREE;
    if (slot->check != tuple->check)
        return HASH_SLOT_OTHER;
    held = tuple_store_words(tuple->store, slot->id, &n_held);
    if (n_held != tuple->n_words)
        return HASH_SLOT_OTHER;
    for (size_t i = 0; i < n_held; i++)
        if (held[i] != tuple->words[i])
            return HASH_SLOT_OTHER;
    return HASH_SLOT_SAME;
}

/* Finds any free slot: tuples that move to a larger table are all different. */
static inline HashSlotState look_free(const void *slots, uint32_t at, const void *wanted) {
    (void)wanted;
    return ((const TupleSlot *)slots)[at].id == UINT32_MAX ? HASH_SLOT_FREE : HASH_SLOT_OTHER;
}

static TupleSlot *make_slots(size_t n) {
    TupleSlot *slots = malloc(n * sizeof(*slots));

    if (slots)
        memset(slots, 0xff, n * sizeof(*slots));
    return slots;
}

/* Doubles the slots. An error leaves the store as it was. */
static int grow_slots(TupleStore *store) {
    const HashTable before = store->table;
    TupleSlot *slots = NULL;
    size_t n_slots;
    int r = hash_table_resize(&store->table, 2 * (uint64_t)store->n, LOAD_PERCENT, &n_slots);

    if (!r)
        slots = make_slots(n_slots);
    if (!r && !slots)
        r = err_raise(-ENOMEM);
    for (uint64_t i = 0; !r && i <= before.mask; i++) {
        uint32_t at;

        if (store->slots[i].id == UINT32_MAX)
            continue;
        r = hash_table_place(&store->table, store->slots[i].check, look_free, slots, NULL, &at);
        if (!r)
            slots[at] = store->slots[i];
    }
    free(r ? slots : store->slots);
    if (r)
        store->table = before;
    else
        store->slots = slots;
    return r ? -ENOMEM : 0;
}

/* --- tuples ------------------------------------------------------------------------------------------------------- */

int tuple_store_init(TupleStore *store) {
    size_t n_slots;
    int r;

    *store = (TupleStore){ .room_words = 64 };
    r = hash_table_init(&store->table, FIRST_TUPLES, LOAD_PERCENT, &n_slots);
    if (r)
        return r;
    store->words = malloc(store->room_words * sizeof(*store->words));
    store->slots = make_slots(n_slots);
    if (store->words && store->slots)
        return 0;
    tuple_store_deinit(store);
    return err_raise(-ENOMEM);
}

void tuple_store_deinit(TupleStore *store) {
    free(store->slots);
    free(store->words);
    free(store->ends);
    *store = (TupleStore){ 0 };
}

static void *copy_of(const void *data, size_t n_bytes) {
    void *copy = malloc(MAX(n_bytes, 1));

    if (copy && n_bytes)
        memcpy(copy, data, n_bytes);
    return copy;
}

int tuple_store_copy(TupleStore *store, const TupleStore *from) {
    const size_t n_words = from->n ? from->ends[from->n - 1] : 0;

    *store = *from;
    store->slots = copy_of(from->slots, ((size_t)from->table.mask + 1) * sizeof(*from->slots));
    store->words = copy_of(from->words, n_words * sizeof(*from->words));
    store->room_words = n_words;
    store->ends = copy_of(from->ends, from->n * sizeof(*from->ends));
    store->room = from->n;
    if (store->slots && store->words && store->ends)
        return 0;
    tuple_store_deinit(store);
    return err_raise(-ENOMEM);
}

/* Makes room for a further tuple. */
static int make_room(TupleStore *store, size_t n_words) {
    if (n_words > store->room_words) {
        size_t room_words = MAX(2 * store->room_words, n_words + 64);
        uint32_t *words = realloc(store->words, room_words * sizeof(*words));

        if (!words)
            return err_raise(-ENOMEM);
        store->words = words;
        store->room_words = room_words;
    }
    if (store->n == store->room) {
        uint32_t room = MAX(2 * store->room, FIRST_TUPLES);
        size_t *ends = realloc(store->ends, room * sizeof(*ends));

        if (!ends)
            return err_raise(-ENOMEM);
        store->ends = ends;
        store->room = room;
    }
    if ((uint64_t)store->n * 100 >= ((uint64_t)store->table.mask + 1) * LOAD_PERCENT)
        return grow_slots(store);
    return 0;
}

uint32_t tuple_store_find(const TupleStore *store, const uint32_t *words, size_t n_words) {
    const Wanted wanted = wanted_of(store, words, n_words);
    const uint32_t at = hash_table_find(&store->table, wanted.check, look, store->slots, &wanted);

    return at == HASH_TABLE_NONE ? UINT32_MAX : store->slots[at].id;
}

int tuple_store_intern(TupleStore *store, const uint32_t *words, size_t n_words, uint32_t *idp) {
    const Wanted wanted = wanted_of(store, words, n_words);
    const size_t begin = store->n ? store->ends[store->n - 1] : 0;
    uint32_t at = hash_table_find(&store->table, wanted.check, look, store->slots, &wanted);
    int r;

    if (at != HASH_TABLE_NONE) {
        *idp = store->slots[at].id;
        return 0;
    }
    r = make_room(store, begin + n_words);
    if (r)
        return r;
    if (hash_table_place(&store->table, wanted.check, look_free, store->slots, NULL, &at))
        return err_raise(-ENOMEM);
    if (n_words)
        memcpy(store->words + begin, words, n_words * sizeof(*words));
    *idp = store->n++;
    store->ends[*idp] = begin + n_words;
    store->slots[at] = (TupleSlot){ wanted.check, *idp };
    return 0;
}

size_t tuple_store_memory_bytes(const TupleStore *store) {
    return (store->slots ? ((size_t)store->table.mask + 1) * sizeof(*store->slots) : 0) +
           store->room_words * sizeof(*store->words) + store->room * sizeof(*store->ends);
}
