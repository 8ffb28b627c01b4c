// SPDX-License-Identifier: Apache-2.0
#include "base/strings/text_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum {
    LOAD_PERCENT = 75 /* a small table stays in the cache */
};

/* Makes free slots for n_texts. */
static int make_slots(TextIndex *index, uint64_t n_texts) {
    size_t n_slots;
    int r = hash_table_resize(&index->table, n_texts, LOAD_PERCENT, &n_slots);

    if (r)
        return err_trace(r);
    index->slots = malloc(n_slots * sizeof(*index->slots));
    if (!index->slots)
        return err_raise(-ENOMEM);
    memset(index->slots, 0xff, n_slots * sizeof(*index->slots));
    return 0;
}

int text_index_init(TextIndex *index, uint32_t n_texts, TextIndexTextFn *text_of, const void *owner) {
    int r;

    *index = (TextIndex){ .text_of = text_of, .owner = owner };
    r = hash_key_init(&index->table.key);
    return r ? err_trace(r) : make_slots(index, n_texts);
}

void text_index_deinit(TextIndex *index) {
    free(index->slots);
    *index = (TextIndex){ 0 };
}

/* A text that is looked for. */
typedef struct Wanted {
    const TextIndex *index;
    const char *text;
    size_t len_bytes;
    uint32_t check;
} Wanted;

static inline HashSlotState look(const void *slots, uint32_t at, const void *wanted) {
    const TextSlot *slot = (const TextSlot *)slots + at;
    const Wanted *text = wanted;
    TextSpan held;

    if (slot->id == UINT32_MAX)
        return HASH_SLOT_FREE;
    if (slot->check != text->check)
        return HASH_SLOT_OTHER;
    held = text->index->text_of(text->index->owner, slot->id);
    return held.len_bytes == text->len_bytes && !memcmp(held.data, text->text, text->len_bytes) ? HASH_SLOT_SAME
                                                                                                : HASH_SLOT_OTHER;
}

static int place(TextIndex *index, uint32_t id) {
    const TextSpan text = index->text_of(index->owner, id);
    const uint64_t hash = hash_key_text(&index->table.key, text.data, text.len_bytes);
    const Wanted wanted = { index, text.data, text.len_bytes, (uint32_t)(hash >> 32) };
    uint32_t at = HASH_TABLE_NONE;
    int r = hash_table_place(&index->table, hash, look, index->slots, &wanted, &at);

    if (!r)
        index->slots[at] = (TextSlot){ .check = wanted.check, .id = id };
    return r;
}

/* Doubles the slots. An error leaves the index as it was. */
static int grow(TextIndex *index) {
    TextIndex before = *index;
    int r;

    index->slots = NULL;
    r = make_slots(index, 2 * (uint64_t)index->n);
    for (uint64_t at = 0; !r && at <= before.table.mask; at++)
        if (before.slots[at].id != UINT32_MAX)
            r = place(index, before.slots[at].id);
    free(r ? index->slots : before.slots);
    if (r)
        *index = before;
    return r;
}

int text_index_add(TextIndex *index, uint32_t id) {
    int r = 0;

    if ((uint64_t)index->n * 100 >= ((uint64_t)index->table.mask + 1) * LOAD_PERCENT)
        r = grow(index);
    if (!r)
        r = place(index, id);
    if (r == HASH_TABLE_E_PRESENT)
        index->n_duplicates++;
    else if (r)
        return r < 0 ? err_trace(r) : TEXT_INDEX_E_CLUSTER;
    else
        index->n++;
    return 0;
}

uint32_t text_index_find(const TextIndex *index, const void *text, size_t len_bytes) {
    const uint64_t hash = hash_key_text(&index->table.key, text, len_bytes);
    const Wanted wanted = { index, text, len_bytes, (uint32_t)(hash >> 32) };
    const uint32_t at = hash_table_find(&index->table, hash, look, index->slots, &wanted);

    return at == HASH_TABLE_NONE ? UINT32_MAX : index->slots[at].id;
}

size_t text_index_memory_bytes(const TextIndex *index) {
    return index->slots ? ((size_t)index->table.mask + 1) * sizeof(*index->slots) : 0;
}
