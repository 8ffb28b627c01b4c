// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/tuple_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/min_max.h"

static TextSpan tuple_text(const void *owner, uint32_t id) {
    size_t n_words;
    const uint32_t *words = tuple_store_words(owner, id, &n_words);

    return (TextSpan){ (const char *)words, n_words * sizeof(*words) };
}

int tuple_store_init(TupleStore *store) {
    int r;

    *store = (TupleStore){ .room_words = 64 };
    store->words = malloc(store->room_words * sizeof(*store->words));
    if (!store->words)
        return err_raise(-ENOMEM);
    r = text_index_init(&store->index, 16, tuple_text, store);
    if (r)
        tuple_store_deinit(store);
    return r;
}

void tuple_store_deinit(TupleStore *store) {
    text_index_deinit(&store->index);
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
    store->index.owner = store;
    store->index.slots = copy_of(from->index.slots, text_index_memory_bytes(&from->index));
    store->words = copy_of(from->words, n_words * sizeof(*from->words));
    store->room_words = n_words;
    store->ends = copy_of(from->ends, from->n * sizeof(*from->ends));
    store->room = from->n;
    if (store->index.slots && store->words && store->ends)
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
        uint32_t room = MAX(2 * store->room, 16);
        size_t *ends = realloc(store->ends, room * sizeof(*ends));

        if (!ends)
            return err_raise(-ENOMEM);
        store->ends = ends;
        store->room = room;
    }
    return 0;
}

int tuple_store_intern(TupleStore *store, const uint32_t *words, size_t n_words, uint32_t *idp) {
    uint32_t id = text_index_find(&store->index, words, n_words * sizeof(*words));
    size_t begin = store->n ? store->ends[store->n - 1] : 0;
    int r;

    if (id != UINT32_MAX) {
        *idp = id;
        return 0;
    }
    r = make_room(store, begin + n_words);
    if (r)
        return r;
    if (n_words)
        memcpy(store->words + begin, words, n_words * sizeof(*words));
    id = store->n++;
    store->ends[id] = begin + n_words;
    if (text_index_add(&store->index, id)) {
        store->n--;
        return err_raise(-ENOMEM);
    }
    *idp = id;
    return 0;
}

size_t tuple_store_memory_bytes(const TupleStore *store) {
    return text_index_memory_bytes(&store->index) + store->room_words * sizeof(*store->words) +
           store->room * sizeof(*store->ends);
}
