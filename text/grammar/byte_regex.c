// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/byte_regex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/min_max.h"
#include "text/grammar/grammar_error.h"

enum {
    DEPTH_MAX = 4000,  /* nested calls of a derivative: about 1 MiB of stack */
    SPINE_MAX = 32,    /* longer heads of a sequence are kept whole, so that no derivative copies a long text */
    FACTORS_MAX = 200, /* nested common beginnings of a choice */
};

static RegexId fail(ByteRegex *store, int r) {
    if (!store->failure)
        store->failure = r;
    return REGEX_NOTHING;
}

void byte_regex_burn(ByteRegex *store, uint64_t n_steps) {
    const uint64_t fuel = n_steps / 4 + 1;

    if (store->fuel < fuel)
        fail(store, GRAMMAR_E_TOO_COMPLEX);
    store->fuel -= MIN(fuel, store->fuel);
}

/* --- sets --------------------------------------------------------------------------------------------------------- */

static uint32_t intern_set(ByteRegex *store, const ByteSet *set) {
    uint32_t id = 0;

    if (tuple_store_intern(&store->sets, set->bits, ARRAY_LEN(set->bits), &id))
        fail(store, -ENOMEM);
    return id;
}

static ByteSet set_of(const ByteRegex *store, uint32_t id) {
    size_t n;

    return *(const ByteSet *)tuple_store_words(&store->sets, id, &n);
}

static bool is_no_byte(const ByteSet *set) {
    static const ByteSet none;

    return !memcmp(set, &none, sizeof(none));
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static uint32_t add_bytes(uint32_t a, uint32_t b) {
    return a == REGEX_NEVER || b == REGEX_NEVER ? REGEX_NEVER
                                                : (uint32_t)MIN((uint64_t)a + b, (uint64_t)REGEX_BYTES_MAX);
}

/* Joins what is known of the parts of a choice or an intersection. */
static void describe_list(ByteRegex *store, RegexInfo *info, const uint32_t *parts, size_t n) {
    const bool is_and = info->kind == REGEX_KIND_AND;
    ByteSet first = set_of(store, store->infos[parts[0]].first);

    info->nullable = is_and;
    info->least = is_and ? 0 : REGEX_BYTES_MAX;
    info->most = is_and ? REGEX_NEVER : 0;
    for (size_t i = 0; i < n; i++) {
        const RegexInfo *part = &store->infos[parts[i]];
        const ByteSet set = set_of(store, part->first);

        info->nullable = is_and ? info->nullable && part->nullable : info->nullable || part->nullable;
        info->least = is_and ? MAX(info->least, part->least) : MIN(info->least, part->least);
        info->most = is_and ? MIN(info->most, part->most) : MAX(info->most, part->most);
        info->has_logic = info->has_logic || part->has_logic;
        info->depth = MAX(info->depth, part->depth + 1);
        for (size_t w = 0; w < ARRAY_LEN(first.bits); w++)
            first.bits[w] = is_and ? first.bits[w] & set.bits[w] : first.bits[w] | set.bits[w];
    }
    info->first = intern_set(store, &first);
}

static void describe(ByteRegex *store, RegexInfo *info, const uint32_t *words, size_t n) {
    const RegexInfo *a = n ? &store->infos[words[0]] : NULL, *b;
    ByteSet first = { 0 };

    switch ((RegexKind)info->kind) {
    case REGEX_KIND_NOTHING:
        info->least = REGEX_BYTES_MAX;
        info->end_bytes = REGEX_NEVER;
        info->first = intern_set(store, &first);
        return;
    case REGEX_KIND_EMPTY:
        info->nullable = true;
        info->first = intern_set(store, &first);
        break;
    case REGEX_KIND_SET:
        info->first = words[0];
        info->least = info->most = 1;
        break;
    case REGEX_KIND_CONCAT:
        b = &store->infos[words[1]];
        info->nullable = a->nullable && b->nullable;
        info->has_logic = a->has_logic || b->has_logic;
        info->depth = MAX(a->depth + 1, a->nullable ? b->depth + 1 : 0);
        info->least = add_bytes(a->least, b->least);
        info->most = add_bytes(a->most, b->most);
        info->first = a->first;
        if (a->nullable) {
            const ByteSet more = set_of(store, b->first);

            first = set_of(store, a->first);
            for (size_t w = 0; w < ARRAY_LEN(first.bits); w++)
                first.bits[w] |= more.bits[w];
            info->first = intern_set(store, &first);
        }
        break;
    case REGEX_KIND_CHOICE:
    case REGEX_KIND_AND:
        info->has_logic = info->kind == REGEX_KIND_AND;
        describe_list(store, info, words, n);
        break;
    case REGEX_KIND_NOT:
        info->nullable = !a->nullable;
        info->has_logic = true;
        info->depth = a->depth + 1;
        info->least = info->nullable ? 0 : 1;
        info->most = REGEX_NEVER;
        memset(&first, 0xff, sizeof(first));
        info->first = intern_set(store, &first);
        break;
    case REGEX_KIND_REPEAT:
        info->nullable = a->nullable || !words[1];
        info->has_logic = a->has_logic;
        info->depth = a->depth + 1;
        info->first = a->first;
        info->least = (uint32_t)MIN((uint64_t)a->least * words[1], (uint64_t)REGEX_BYTES_MAX);
        info->most = a->most == REGEX_NEVER || words[2] == REGEX_NO_MAX
                         ? REGEX_NEVER
                         : (uint32_t)MIN((uint64_t)a->most * words[2], (uint64_t)REGEX_BYTES_MAX);
        break;
    }
    info->end_bytes = info->nullable ? 0 : info->has_logic ? REGEX_UNKNOWN : info->least;
}

/* Returns the node of these words, which do not lie in the store of nodes. */
static RegexId intern(ByteRegex *store, const uint32_t *words, size_t n) {
    const uint32_t n_before = store->nodes.n;
    RegexInfo info = { .kind = (uint8_t)words[0] };
    RegexId id;

    if (store->failure)
        return REGEX_NOTHING;
    if (n_before == store->room_infos) {
        uint32_t room = MAX(2 * n_before, 64);
        RegexInfo *infos = realloc(store->infos, room * sizeof(*infos));

        if (!infos)
            return fail(store, -ENOMEM);
        store->infos = infos;
        store->room_infos = room;
    }
    if (tuple_store_intern(&store->nodes, words, n, &id))
        return fail(store, -ENOMEM);
    if (id < n_before)
        return id;
    describe(store, &info, words + 1, n - 1);
    store->infos[id] = info;
    if (!store->fuel || info.depth > DEPTH_MAX ||
        (!(id & 1023) && byte_regex_memory_bytes(store) > store->memory_bytes_max))
        fail(store, GRAMMAR_E_TOO_COMPLEX);
    else
        store->fuel--;
    return id;
}

static int init_scratch(ByteRegex *store) {
    store->n_scratch = 0;
    store->room_scratch = 64;
    store->scratch = malloc(store->room_scratch * sizeof(*store->scratch));
    return store->scratch ? 0 : err_raise(-ENOMEM);
}

int byte_regex_init(ByteRegex *store, uint64_t fuel, size_t memory_bytes_max) {
    int r;

    *store = (ByteRegex){ .fuel = fuel, .memory_bytes_max = memory_bytes_max };
    r = init_scratch(store);
    if (!r)
        r = tuple_store_init(&store->nodes);
    if (!r)
        r = tuple_store_init(&store->sets);
    if (!r)
        r = tuple_store_init(&store->memo);
    if (!r) {
        intern(store, (const uint32_t[]){ REGEX_KIND_NOTHING }, 1);
        intern(store, (const uint32_t[]){ REGEX_KIND_EMPTY }, 1);
        intern(store, (const uint32_t[]){ REGEX_KIND_NOT, REGEX_NOTHING }, 2);
        r = store->failure;
    }
    if (r)
        byte_regex_deinit(store);
    return r;
}

void byte_regex_deinit(ByteRegex *store) {
    tuple_store_deinit(&store->nodes);
    tuple_store_deinit(&store->sets);
    tuple_store_deinit(&store->memo);
    free(store->infos);
    free(store->memo_values);
    free(store->scratch);
    *store = (ByteRegex){ 0 };
}

ByteRegex *byte_regex_free(ByteRegex *store) {
    if (store)
        byte_regex_deinit(store);
    free(store);
    return NULL;
}

int byte_regex_copy(ByteRegex *store, const ByteRegex *from) {
    int r;

    *store = *from;
    store->nodes = store->sets = store->memo = (TupleStore){ 0 };
    store->memo_values = NULL;
    store->room_values = 0;
    store->room_infos = from->nodes.n;
    store->infos = malloc(from->nodes.n * sizeof(*store->infos));
    r = init_scratch(store);
    if (!r && !store->infos)
        r = err_raise(-ENOMEM);
    if (!r)
        r = tuple_store_copy(&store->nodes, &from->nodes);
    if (!r)
        r = tuple_store_copy(&store->sets, &from->sets);
    if (!r)
        r = tuple_store_init(&store->memo);
    if (!r)
        memcpy(store->infos, from->infos, from->nodes.n * sizeof(*store->infos));
    else
        byte_regex_deinit(store);
    return r;
}

size_t byte_regex_memory_bytes(const ByteRegex *store) {
    return tuple_store_memory_bytes(&store->nodes) + tuple_store_memory_bytes(&store->sets) +
           tuple_store_memory_bytes(&store->memo) + store->room_infos * sizeof(*store->infos) +
           store->room_values * sizeof(*store->memo_values) + store->room_scratch * sizeof(*store->scratch);
}

int byte_regex_push(ByteRegex *store, uint32_t word) {
    if (store->n_scratch == store->room_scratch) {
        size_t room = 2 * store->room_scratch;
        uint32_t *scratch = realloc(store->scratch, room * sizeof(*scratch));

        if (!scratch) {
            fail(store, -ENOMEM);
            return -ENOMEM;
        }
        store->scratch = scratch;
        store->room_scratch = room;
    }
    store->scratch[store->n_scratch++] = word;
    return 0;
}

/* --- constructors: each brings its result into the one form that equal expressions have --------------------------- */

RegexId byte_regex_set(ByteRegex *store, const ByteSet *set) {
    return is_no_byte(set) ? REGEX_NOTHING
                           : intern(store, (const uint32_t[]){ REGEX_KIND_SET, intern_set(store, set) }, 2);
}

RegexId byte_regex_range(ByteRegex *store, uint8_t first, uint8_t last) {
    ByteSet set = { 0 };

    for (unsigned int byte = first; byte <= last; byte++)
        byte_set_add(&set, (uint8_t)byte);
    return byte_regex_set(store, &set);
}

RegexId byte_regex_bytes(ByteRegex *store, const uint8_t *bytes, size_t n) {
    RegexId id = REGEX_EMPTY, nodes[256] = { REGEX_NOTHING }; /* of the bytes that came by */

    while (n--) {
        RegexId *node = &nodes[bytes[n]];

        if (*node == REGEX_NOTHING)
            *node = byte_regex_range(store, bytes[n], bytes[n]);
        id = byte_regex_concat(store, *node, id);
    }
    return id;
}

/* Counts the parts of a sequence, up to SPINE_MAX + 1. */
static int spine_of(const ByteRegex *store, RegexId id) {
    int n = 1;

    for (; n <= SPINE_MAX && store->infos[id].kind == REGEX_KIND_CONCAT; n++)
        id = byte_regex_word(store, id, 1);
    return n;
}

RegexId byte_regex_concat(ByteRegex *store, RegexId a, RegexId b) {
    if (a == REGEX_NOTHING || b == REGEX_NOTHING)
        return REGEX_NOTHING;
    if (a == REGEX_EMPTY)
        return b;
    if (b == REGEX_EMPTY)
        return a;
    if (store->infos[a].kind == REGEX_KIND_CONCAT && spine_of(store, a) <= SPINE_MAX) {
        RegexId head = byte_regex_word(store, a, 0), tail = byte_regex_word(store, a, 1);

        a = head;
        b = byte_regex_concat(store, tail, b);
    }
    return intern(store, (const uint32_t[]){ REGEX_KIND_CONCAT, a, b }, 3);
}

static int compare_words(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Sorts scratch[base..], without doubles. */
static void sort_scratch(ByteRegex *store, size_t base) {
    uint32_t *list = store->scratch + base;
    size_t n = store->n_scratch - base, n_kept = 0;

    if (n > 1)
        qsort(list, n, sizeof(*list), compare_words);
    for (size_t i = 0; i < n; i++)
        if (!i || list[i] != list[i - 1])
            list[n_kept++] = list[i];
    store->n_scratch = base + n_kept;
}

/* Replaces nodes of a kind in scratch[base..] by their parts, and all sets there by one set, at the end. */
static void flatten(ByteRegex *store, size_t base, RegexKind kind) {
    const size_t n = store->n_scratch;
    ByteSet set = { 0 };
    size_t n_sets = 0, at = base;

    for (size_t i = base; i < n; i++) {
        const RegexId id = store->scratch[i];

        if (store->infos[id].kind != kind)
            continue;
        for (size_t k = 0; k < byte_regex_n_words(store, id); k++)
            if (byte_regex_push(store, byte_regex_word(store, id, k)))
                return;
    }
    for (size_t i = base; i < store->n_scratch; i++) {
        const RegexId id = store->scratch[i];

        if (store->infos[id].kind == REGEX_KIND_SET) {
            const ByteSet *more = byte_regex_first(store, id);

            for (size_t w = 0; w < ARRAY_LEN(set.bits); w++)
                set.bits[w] = !n_sets                     ? more->bits[w]
                              : kind == REGEX_KIND_CHOICE ? set.bits[w] | more->bits[w]
                                                          : set.bits[w] & more->bits[w];
            n_sets++;
        } else if (store->infos[id].kind != kind) {
            store->scratch[at++] = id;
        }
    }
    store->n_scratch = at;
    if (n_sets)
        byte_regex_push(store, byte_regex_set(store, &set));
}

static RegexId head_of(const ByteRegex *store, RegexId id) {
    return store->infos[id].kind == REGEX_KIND_CONCAT ? byte_regex_word(store, id, 0) : id;
}

static RegexId choice(ByteRegex *store, size_t base, int n_factors);

/* Joins alternatives of scratch[base..], which is sorted, that have the same head: a b | a c becomes a (b | c). */
static void factor(ByteRegex *store, size_t base, int n_factors) {
    size_t n = store->n_scratch, n_kept = base;

    /* The pairs (head, alternative) go behind the list, sorted by head. */
    for (size_t i = base; i < n; i++)
        if (byte_regex_push(store, head_of(store, store->scratch[i])) || byte_regex_push(store, store->scratch[i]))
            return;
    qsort(store->scratch + n, n - base, 2 * sizeof(*store->scratch), compare_words);
    for (size_t i = 0, end; i < n - base; i = end) {
        const size_t tails = store->n_scratch;
        const RegexId head = store->scratch[n + 2 * i];
        RegexId joined = store->scratch[n + 2 * i + 1];

        for (end = i + 1; end < n - base && store->scratch[n + 2 * end] == head; end++) {}
        if (end > i + 1) {
            for (size_t k = i; k < end; k++) {
                const RegexId id = store->scratch[n + 2 * k + 1];

                if (byte_regex_push(store, id == head ? REGEX_EMPTY : byte_regex_word(store, id, 1)))
                    return;
            }
            joined = byte_regex_concat(store, head, choice(store, tails, n_factors + 1));
            store->n_scratch = tails;
        }
        store->scratch[n_kept++] = joined;
    }
    store->n_scratch = n_kept;
}

/* Whether an alternative beside the empty text has it, too. */
static bool has_other_nullable(const ByteRegex *store, size_t base) {
    for (size_t i = base; i < store->n_scratch; i++)
        if (store->scratch[i] != REGEX_EMPTY && store->infos[store->scratch[i]].nullable)
            return true;
    return false;
}

/* Drops a node from scratch[base..]. */
static void drop(ByteRegex *store, size_t base, RegexId id) {
    size_t at = base;

    for (size_t i = base; i < store->n_scratch; i++)
        if (store->scratch[i] != id)
            store->scratch[at++] = store->scratch[i];
    store->n_scratch = at;
}

/* Returns the node of a kind with the parts scratch[base..], two or more, and takes them away. */
static RegexId intern_list(ByteRegex *store, size_t base, RegexKind kind) {
    RegexId id = REGEX_NOTHING;

    if (!byte_regex_push(store, 0)) {
        memmove(store->scratch + base + 1, store->scratch + base,
                (store->n_scratch - base - 1) * sizeof(*store->scratch));
        store->scratch[base] = kind;
        id = intern(store, store->scratch + base, store->n_scratch - base);
    }
    store->n_scratch = base;
    return id;
}

static RegexId choice(ByteRegex *store, size_t base, int n_factors) {
    RegexId id;

    flatten(store, base, REGEX_KIND_CHOICE);
    byte_regex_burn(store, store->n_scratch - base);
    drop(store, base, REGEX_NOTHING);
    for (size_t i = base; i < store->n_scratch; i++)
        if (store->scratch[i] == REGEX_ANYTHING) {
            store->n_scratch = base;
            return REGEX_ANYTHING;
        }
    sort_scratch(store, base);
    if (store->n_scratch - base > 1 && n_factors < FACTORS_MAX) {
        factor(store, base, n_factors);
        sort_scratch(store, base);
    }
    if (has_other_nullable(store, base))
        drop(store, base, REGEX_EMPTY);
    if (store->failure || store->n_scratch - base <= 1) {
        id = store->failure || store->n_scratch == base ? REGEX_NOTHING : store->scratch[base];
        store->n_scratch = base;
        return id;
    }
    return intern_list(store, base, REGEX_KIND_CHOICE);
}

/* Returns the choice of scratch[base..], and takes these away. */
RegexId byte_regex_choice_of_scratch(ByteRegex *store, size_t base) {
    return choice(store, base, 0);
}

RegexId byte_regex_choice(ByteRegex *store, const RegexId *parts, size_t n) {
    const size_t base = store->n_scratch;

    for (size_t i = 0; i < n && !store->failure; i++)
        byte_regex_push(store, parts[i]);
    return byte_regex_choice_of_scratch(store, base);
}

/* Returns the intersection of scratch[base..], and takes these away. */
RegexId byte_regex_and_of_scratch(ByteRegex *store, size_t base) {
    ByteSet first;
    bool is_nullable = true;
    RegexId id;

    memset(&first, 0xff, sizeof(first));
    flatten(store, base, REGEX_KIND_AND);
    byte_regex_burn(store, store->n_scratch - base);
    drop(store, base, REGEX_ANYTHING);
    sort_scratch(store, base);
    for (size_t i = base; i < store->n_scratch; i++) {
        const RegexInfo *info = &store->infos[store->scratch[i]];
        const ByteSet *set = byte_regex_first(store, store->scratch[i]);

        is_nullable = is_nullable && info->nullable;
        for (size_t w = 0; w < ARRAY_LEN(first.bits); w++)
            first.bits[w] &= set->bits[w];
    }
    if (store->failure || is_no_byte(&first) || store->n_scratch - base <= 1) {
        id = store->failure             ? REGEX_NOTHING
             : store->n_scratch == base ? REGEX_ANYTHING
             : is_no_byte(&first)       ? (is_nullable ? REGEX_EMPTY : REGEX_NOTHING)
                                        : store->scratch[base];
        store->n_scratch = base;
        return id;
    }
    return intern_list(store, base, REGEX_KIND_AND);
}

RegexId byte_regex_and(ByteRegex *store, const RegexId *parts, size_t n) {
    const size_t base = store->n_scratch;

    for (size_t i = 0; i < n && !store->failure; i++)
        byte_regex_push(store, parts[i]);
    return byte_regex_and_of_scratch(store, base);
}

RegexId byte_regex_not(ByteRegex *store, RegexId part) {
    return store->infos[part].kind == REGEX_KIND_NOT ? byte_regex_word(store, part, 0)
                                                     : intern(store, (const uint32_t[]){ REGEX_KIND_NOT, part }, 2);
}

RegexId byte_regex_repeat(ByteRegex *store, RegexId part, uint32_t min, uint32_t max) {
    if (min > max)
        return REGEX_NOTHING;
    if (!max || part == REGEX_EMPTY)
        return REGEX_EMPTY;
    if (part == REGEX_NOTHING)
        return min ? REGEX_NOTHING : REGEX_EMPTY;
    if (part == REGEX_ANYTHING || (min == 1 && max == 1))
        return part;
    if (store->infos[part].nullable)
        min = 0;
    if (store->infos[part].kind == REGEX_KIND_REPEAT && !byte_regex_word(store, part, 1) &&
        byte_regex_word(store, part, 2) == REGEX_NO_MAX)
        return part;
    return intern(store, (const uint32_t[]){ REGEX_KIND_REPEAT, part, min, max }, 4);
}
