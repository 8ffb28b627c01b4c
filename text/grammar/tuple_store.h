// SPDX-License-Identifier: Apache-2.0
/* Gives equal tuples of numbers the same dense id: nodes, sets, rows and states of grammars are such tuples. */
#ifndef COORDGEN_TEXT_TUPLE_STORE_H
#define COORDGEN_TEXT_TUPLE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

typedef struct TupleSlot {
    uint32_t check; /* of the hash; its low bits are the tuple's home slot */
    uint32_t id;    /* UINT32_MAX: the slot is free */
} TupleSlot;

typedef struct TupleStore {
    uint32_t *words; /* of all tuples, one behind the other */
    size_t room_words;
    size_t *ends; /* [n], where the words of a tuple end */
    uint32_t n;
    uint32_t room;
    HashTable table;
    TupleSlot *slots;
} TupleStore;

/* 0 or -errno. */
int tuple_store_init(TupleStore *store);
void tuple_store_deinit(TupleStore *store);
/* Makes a copy with the same ids. 0 or -errno. */
int tuple_store_copy(TupleStore *store, const TupleStore *from);
/* Finds or adds a tuple, which must not lie inside the store: *idp is its id, the number of tuples before if it is
 * new. 0 or -ENOMEM, also when keys collide on purpose. */
int tuple_store_intern(TupleStore *store, const uint32_t *words, size_t n_words, uint32_t *idp);
/* Returns the id of a tuple; UINT32_MAX: the store does not have it. */
uint32_t tuple_store_find(const TupleStore *store, const uint32_t *words, size_t n_words);
size_t tuple_store_memory_bytes(const TupleStore *store);

static inline const uint32_t *tuple_store_words(const TupleStore *store, uint32_t id, size_t *n_wordsp) {
    size_t begin = id ? store->ends[id - 1] : 0;

    *n_wordsp = store->ends[id] - begin;
    return store->words + begin;
}

#endif
