// SPDX-License-Identifier: Apache-2.0
/* Hash index from a text to the number of its first owner. The texts stay with the caller. */
#ifndef COORDGEN_BASE_TEXT_INDEX_H
#define COORDGEN_BASE_TEXT_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

enum {
    TEXT_INDEX_E_CLUSTER = 1, /* too many texts collide for fast look-ups: the table was made to harm */
};

typedef struct TextSpan {
    const char *data;
    size_t len_bytes;
} TextSpan;

/* Returns the text of an id that was added. */
typedef TextSpan TextIndexTextFn(const void *owner, uint32_t id);

typedef struct TextSlot {
    uint32_t check; /* high half of the hash, which shows most misses without reading the text */
    uint32_t id;    /* UINT32_MAX: the slot is free */
} TextSlot;

typedef struct TextIndex {
    HashTable table;
    TextSlot *slots;
    uint32_t n;
    uint32_t n_duplicates; /* texts that were added when an equal one was there */
    TextIndexTextFn *text_of;
    const void *owner;
} TextIndex;

/* Makes an empty index with room for n_texts. The owner outlives the index. 0 or -errno. */
int text_index_init(TextIndex *index, uint32_t n_texts, TextIndexTextFn *text_of, const void *owner);
void text_index_deinit(TextIndex *index);
/* Adds the text of id; the first id of a text is kept. 0; TEXT_INDEX_E_CLUSTER; -ENOMEM, not for the first n_texts. */
int text_index_add(TextIndex *index, uint32_t id);
uint32_t text_index_find(const TextIndex *index, const void *text, size_t len_bytes); /* UINT32_MAX: absent */
size_t text_index_memory_bytes(const TextIndex *index);

#endif
