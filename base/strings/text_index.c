// SPDX-License-Identifier: Apache-2.0
#include "base/strings/text_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int text_index_init(TextIndex *index, uint32_t n_texts, const char *texts, const uint32_t *offsets) {
    size_t n_slots;
    int r;

    *index = (TextIndex){ .texts = texts, .offsets = offsets };
    r = hash_table_init(&index->table, n_texts, 75, &n_slots); /* a small table stays in the cache */
    if (r)
        return err_trace(r);
    index->slots = malloc(n_slots * sizeof(*index->slots));
    if (!index->slots)
        return err_raise(-ENOMEM);
    memset(index->slots, 0xff, n_slots * sizeof(*index->slots));
    return 0;
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
    const uint32_t *offset;

    if (slot->id == UINT32_MAX)
        return HASH_SLOT_FREE;
    offset = text->index->offsets + slot->id;
    return slot->check == text->check && offset[1] - offset[0] == text->len_bytes &&
                   !memcmp(text->index->texts + offset[0], text->text, text->len_bytes)
               ? HASH_SLOT_SAME
               : HASH_SLOT_OTHER;
}

int text_index_add(TextIndex *index, uint32_t id) {
    const char *text = index->texts + index->offsets[id];
    const size_t len_bytes = index->offsets[id + 1] - index->offsets[id];
    const uint64_t hash = hash_key_text(&index->table.key, text, len_bytes);
    const Wanted wanted = { index, text, len_bytes, (uint32_t)(hash >> 32) };
    uint32_t at = HASH_TABLE_NONE;
    int r = hash_table_place(&index->table, hash, look, index->slots, &wanted, &at);

    if (r == HASH_TABLE_E_CLUSTER)
        return TEXT_INDEX_E_CLUSTER;
    if (r)
        index->n_duplicates++;
    else
        index->slots[at] = (TextSlot){ .check = wanted.check, .id = id };
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
