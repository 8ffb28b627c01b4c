// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/min_max.h"
#include "text/grammar/byte_regex.h"
#include "text/grammar/grammar_error.h"

static void fail(ByteRegex *store, int r) {
    if (!store->failure)
        store->failure = r;
}

/* --- classes ------------------------------------------------------------------------------------------------------ */

/* Splits every class whose bytes lie partly in the set. */
static void split_classes(ByteRegex *store, const ByteSet *set) {
    int16_t inside[256];

    memset(inside, 0xff, sizeof(inside));
    for (unsigned int byte = 0; byte < 256; byte++) {
        const uint8_t class = store->class_of[byte];

        /* The bytes of a class that lie in the set move to a new class, or stay if the class begins with them. */
        if (!byte_set_has(set, (uint8_t)byte))
            continue;
        if (inside[class] < 0) {
            bool is_whole = true;

            for (unsigned int other = 0; other < 256; other++)
                if (store->class_of[other] == class && !byte_set_has(set, (uint8_t)other))
                    is_whole = false;
            inside[class] = is_whole ? class : (int16_t)store->n_classes++;
            if (!is_whole)
                inside[inside[class]] = inside[class];
        }
        store->class_of[byte] = (uint8_t)inside[class];
    }
}

int byte_regex_set_classes(ByteRegex *store, const RegexId *roots, size_t n) {
    _cleanup_(freep) uint8_t *seen = calloc(store->nodes.n, 1);
    const size_t base = store->n_scratch;

    if (!seen)
        return err_raise(-ENOMEM);
    memset(store->class_of, 0, sizeof(store->class_of));
    store->n_classes = 1;
    for (size_t i = 0; i < n; i++)
        byte_regex_push(store, roots[i]);
    while (store->n_scratch > base && !store->failure) {
        const RegexId id = store->scratch[--store->n_scratch];
        const RegexKind kind = store->infos[id].kind;

        if (seen[id])
            continue;
        seen[id] = 1;
        if (kind == REGEX_KIND_SET)
            split_classes(store, byte_regex_first(store, id));
        else if (kind == REGEX_KIND_REPEAT)
            byte_regex_push(store, byte_regex_word(store, id, 0));
        else
            for (size_t k = 0; k < byte_regex_n_words(store, id); k++)
                byte_regex_push(store, byte_regex_word(store, id, k));
    }
    store->n_scratch = base;
    for (unsigned int byte = 256; byte--;)
        store->sample_of[store->class_of[byte]] = (uint8_t)byte;
    return store->failure;
}

/* --- derivatives -------------------------------------------------------------------------------------------------- */

static RegexId derive_list(ByteRegex *store, RegexId id, RegexKind kind, uint8_t byte) {
    const size_t base = store->n_scratch, n = byte_regex_n_words(store, id);

    byte_regex_burn(store, n);
    for (size_t i = 0; i < n && !store->failure; i++) {
        const RegexId part = byte_regex_derive(store, byte_regex_word(store, id, i), byte);

        if (part == REGEX_NOTHING && kind == REGEX_KIND_CHOICE)
            continue;
        if (part == REGEX_NOTHING) {
            store->n_scratch = base;
            return REGEX_NOTHING;
        }
        byte_regex_push(store, part);
    }
    return kind == REGEX_KIND_CHOICE ? byte_regex_choice_of_scratch(store, base)
                                     : byte_regex_and_of_scratch(store, base);
}

static RegexId derive_concat(ByteRegex *store, RegexId id, uint8_t byte) {
    const RegexId a = byte_regex_word(store, id, 0), b = byte_regex_word(store, id, 1);
    RegexId both[2];

    both[0] = byte_regex_concat(store, byte_regex_derive(store, a, byte), b);
    if (!store->infos[a].nullable)
        return both[0];
    both[1] = byte_regex_derive(store, b, byte);
    return byte_regex_choice(store, both, 2);
}

static RegexId derive_repeat(ByteRegex *store, RegexId id, uint8_t byte) {
    const RegexId part = byte_regex_word(store, id, 0);
    const uint32_t min = byte_regex_word(store, id, 1), max = byte_regex_word(store, id, 2);
    const RegexId head = byte_regex_derive(store, part, byte);

    return byte_regex_concat(
        store, head, byte_regex_repeat(store, part, min ? min - 1 : 0, max == REGEX_NO_MAX ? REGEX_NO_MAX : max - 1));
}

static void remember(ByteRegex *store, const uint32_t key[2], RegexId value) {
    uint32_t at;

    if (store->memo.n == store->room_values) {
        uint32_t room = MAX(2 * store->room_values, 64);
        RegexId *values = realloc(store->memo_values, room * sizeof(*values));

        if (!values)
            return fail(store, -ENOMEM);
        store->memo_values = values;
        store->room_values = room;
    }
    if (tuple_store_intern(&store->memo, key, 2, &at))
        return fail(store, -ENOMEM);
    store->memo_values[at] = value;
}

RegexId byte_regex_derive(ByteRegex *store, RegexId id, uint8_t byte) {
    const RegexKind kind = store->infos[id].kind;
    const uint32_t key[2] = { id, byte };
    uint32_t found;
    RegexId next;

    if (store->failure || !byte_set_has(byte_regex_first(store, id), byte))
        return REGEX_NOTHING;
    if (kind == REGEX_KIND_SET)
        return REGEX_EMPTY;
    if (kind == REGEX_KIND_CONCAT && store->infos[byte_regex_word(store, id, 0)].kind == REGEX_KIND_SET)
        return byte_regex_word(store, id, 1);
    found = tuple_store_find(&store->memo, key, ARRAY_LEN(key));
    if (found != UINT32_MAX)
        return store->memo_values[found];
    if (!store->fuel) {
        fail(store, GRAMMAR_E_TOO_COMPLEX);
        return REGEX_NOTHING;
    }
    store->fuel--;
    switch (kind) {
    case REGEX_KIND_CONCAT:
        next = derive_concat(store, id, byte);
        break;
    case REGEX_KIND_CHOICE:
    case REGEX_KIND_AND:
        next = derive_list(store, id, kind, byte);
        break;
    case REGEX_KIND_NOT:
        next = byte_regex_not(store, byte_regex_derive(store, byte_regex_word(store, id, 0), byte));
        break;
    default:
        next = derive_repeat(store, id, byte);
        break;
    }
    if (!store->failure)
        remember(store, key, next);
    return store->failure ? REGEX_NOTHING : next;
}

/* --- the way to an end -------------------------------------------------------------------------------------------- */

/* A place of the search: a node, and the place that it was reached from. */
typedef struct SearchPlace {
    RegexId id;
    uint32_t parent;
} SearchPlace;

typedef struct Search {
    SearchPlace *places;
    uint32_t n, room;
    uint32_t *heap; /* places by the least bytes of their nodes */
    uint32_t n_heap;
    TupleStore seen;
} Search;

static void search_deinit(Search *search) {
    free(search->places);
    free(search->heap);
    tuple_store_deinit(&search->seen);
}

static uint32_t least_at(const ByteRegex *store, const Search *search, uint32_t at) {
    return store->infos[search->places[search->heap[at]].id].least;
}

static void swap_places(Search *search, uint32_t a, uint32_t b) {
    const uint32_t place = search->heap[a];

    search->heap[a] = search->heap[b];
    search->heap[b] = place;
}

static int search_push(const ByteRegex *store, Search *search, RegexId id, uint32_t parent) {
    uint32_t before = search->seen.n, place;
    int r = tuple_store_intern(&search->seen, &id, 1, &place);

    if (r || place < before)
        return r;
    if (search->n == search->room) {
        uint32_t room = MAX(2 * search->room, 64);
        SearchPlace *places = realloc(search->places, room * sizeof(*places));
        uint32_t *heap = places ? realloc(search->heap, room * sizeof(*heap)) : NULL;

        search->places = places ? places : search->places;
        search->heap = heap ? heap : search->heap;
        if (!heap)
            return err_raise(-ENOMEM);
        search->room = room;
    }
    search->places[search->n] = (SearchPlace){ id, parent };
    search->heap[search->n_heap] = search->n++;
    for (uint32_t at = search->n_heap++; at && least_at(store, search, at) < least_at(store, search, (at - 1) / 2);
         at = (at - 1) / 2)
        swap_places(search, at, (at - 1) / 2);
    return 0;
}

static uint32_t search_pop(const ByteRegex *store, Search *search) {
    const uint32_t top = search->heap[0];

    search->heap[0] = search->heap[--search->n_heap];
    for (uint32_t at = 0, child; (child = 2 * at + 1) < search->n_heap; at = child) {
        if (child + 1 < search->n_heap && least_at(store, search, child + 1) < least_at(store, search, child))
            child++;
        if (least_at(store, search, at) <= least_at(store, search, child))
            break;
        swap_places(search, at, child);
    }
    return top;
}

/* Notes the lengths of the way that was found, which leads from place on in n_bytes. */
static void note_way(ByteRegex *store, const Search *search, uint32_t place, uint32_t n_bytes) {
    for (; place != UINT32_MAX; place = search->places[place].parent)
        store->infos[search->places[place].id].end_bytes = n_bytes = MIN(n_bytes + 1, REGEX_BYTES_MAX);
}

/* Searches an intersection or complement for a text, best first. Every node on the way then knows its own way; where
 * no text is found, no node that was met has one. */
static int search_end(ByteRegex *store, RegexId id) {
    _cleanup_(search_deinit) Search search = { 0 };
    int r = tuple_store_init(&search.seen);

    if (!r)
        r = search_push(store, &search, id, UINT32_MAX);
    while (!r && search.n_heap) {
        const uint32_t place = search_pop(store, &search);
        const RegexId at = search.places[place].id;

        for (uint32_t class = 0; class < store->n_classes && !r; class ++) {
            const RegexId next = byte_regex_derive(store, at, store->sample_of[class]);
            uint32_t n_bytes;

            if (store->failure)
                return store->failure;
            n_bytes = store->infos[next].end_bytes;
            if (n_bytes == REGEX_NEVER)
                continue;
            if (n_bytes != REGEX_UNKNOWN) {
                note_way(store, &search, place, n_bytes);
                return 0;
            }
            r = search_push(store, &search, next, place);
        }
    }
    for (uint32_t i = 0; i < search.n && !r; i++)
        store->infos[search.places[i].id].end_bytes = REGEX_NEVER;
    return r;
}

static uint32_t join_bytes(uint32_t a, uint64_t b) {
    return a == REGEX_NEVER || b == REGEX_NEVER ? REGEX_NEVER : (uint32_t)MIN(a + b, (uint64_t)REGEX_BYTES_MAX);
}

/* Walks along a sequence, which may be far longer than the stack has calls, and adds its parts up from the last one. */
static uint32_t sequence_end_bytes(ByteRegex *store, RegexId id) {
    const size_t base = store->n_scratch;
    uint32_t n_bytes;

    for (; store->infos[id].kind == REGEX_KIND_CONCAT && store->infos[id].end_bytes == REGEX_UNKNOWN;
         id = byte_regex_word(store, id, 1))
        if (byte_regex_push(store, id))
            return REGEX_NEVER;
    n_bytes = byte_regex_end_bytes(store, id);
    while (store->n_scratch > base && !store->failure) {
        id = store->scratch[store->n_scratch - 1];
        n_bytes = join_bytes(byte_regex_end_bytes(store, byte_regex_word(store, id, 0)), n_bytes);
        store->n_scratch--;
        if (!store->failure)
            store->infos[id].end_bytes = n_bytes;
    }
    store->n_scratch = base;
    return n_bytes;
}

uint32_t byte_regex_end_bytes(ByteRegex *store, RegexId id) {
    const RegexKind kind = store->infos[id].kind;
    uint32_t n_bytes = store->infos[id].end_bytes, once;

    if (n_bytes != REGEX_UNKNOWN)
        return n_bytes;
    switch (kind) {
    case REGEX_KIND_CONCAT:
        n_bytes = sequence_end_bytes(store, id);
        break;
    case REGEX_KIND_CHOICE:
        n_bytes = REGEX_NEVER;
        for (size_t i = 0; i < byte_regex_n_words(store, id); i++)
            n_bytes = MIN(n_bytes, byte_regex_end_bytes(store, byte_regex_word(store, id, i)));
        break;
    case REGEX_KIND_REPEAT: /* not nullable, so at least one */
        once = byte_regex_end_bytes(store, byte_regex_word(store, id, 0));
        n_bytes = once == REGEX_NEVER ? REGEX_NEVER : join_bytes(0, (uint64_t)once * byte_regex_word(store, id, 1));
        break;
    default:
        if (!store->failure) {
            int r = search_end(store, id);

            if (r)
                fail(store, r);
        }
        n_bytes = store->infos[id].end_bytes;
        break;
    }
    if (store->failure)
        return REGEX_NEVER;
    store->infos[id].end_bytes = n_bytes;
    return n_bytes;
}
