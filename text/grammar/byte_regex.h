// SPDX-License-Identifier: Apache-2.0
/* Regular expressions over bytes, with intersection and complement, as shared nodes: equal expressions have equal ids.
 * Derivatives (Brzozowski 1964; Owens, Reppy, Turon 2009) take the place of automata, so only what a text meets is
 * ever computed.
 *
 * A failure stays with the store: functions that make nodes then return any node. Each new node costs one unit of
 * fuel. */
#ifndef COORDGEN_TEXT_BYTE_REGEX_H
#define COORDGEN_TEXT_BYTE_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/tuple_store.h"

typedef uint32_t RegexId;

#define REGEX_NOTHING 0u  /* no text */
#define REGEX_EMPTY 1u    /* the empty text */
#define REGEX_ANYTHING 2u /* every text of any bytes */
#define REGEX_NO_MAX UINT32_MAX

/* Bytes of a shortest text: known values, then these two. */
#define REGEX_BYTES_MAX 0xfffffff0u
#define REGEX_UNKNOWN 0xfffffffeu
#define REGEX_NEVER UINT32_MAX

typedef struct ByteSet {
    uint32_t bits[8];
} ByteSet;

static inline bool byte_set_has(const ByteSet *set, uint8_t byte) {
    return set->bits[byte >> 5] >> (byte & 31) & 1;
}
static inline void byte_set_add(ByteSet *set, uint8_t byte) {
    set->bits[byte >> 5] |= 1u << (byte & 31);
}

typedef enum RegexKind {
    REGEX_KIND_NOTHING,
    REGEX_KIND_EMPTY,
    REGEX_KIND_SET,    /* a byte of a set; words: the set */
    REGEX_KIND_CONCAT, /* words: head, tail */
    REGEX_KIND_CHOICE, /* words: two or more, none of them a choice */
    REGEX_KIND_AND,    /* words: two or more */
    REGEX_KIND_NOT,    /* words: the other */
    REGEX_KIND_REPEAT, /* words: what, min, max */
} RegexKind;

/* What is known of a node, beside its words in the store of nodes. */
typedef struct RegexInfo {
    uint8_t kind;
    bool nullable;      /* the empty text is among its texts */
    bool has_logic;     /* there is an intersection or a complement inside */
    uint16_t depth;     /* nested calls of a derivative */
    uint32_t first;     /* set of bytes that texts may begin with: no fewer, with logic perhaps more */
    uint32_t least;     /* no text is shorter, in bytes */
    uint32_t most;      /* no text is longer, in bytes; REGEX_NEVER: there is no such limit, or it is not known */
    uint32_t end_bytes; /* bytes of a short text (the shortest without logic), REGEX_NEVER, REGEX_UNKNOWN */
} RegexInfo;

typedef struct ByteRegex {
    TupleStore nodes; /* kind, words */
    RegexInfo *infos; /* [nodes.n] */
    uint32_t room_infos;
    TupleStore sets;      /* ByteSet as words */
    TupleStore memo;      /* node, byte */
    RegexId *memo_values; /* [memo.n], derivatives */
    uint32_t room_values; /* of memo_values */
    uint32_t *scratch;    /* stack of lists under construction */
    size_t n_scratch, room_scratch;
    uint8_t class_of[256];  /* bytes that no node tells apart have the same class */
    uint8_t sample_of[256]; /* [n_classes], a byte of each class */
    uint32_t n_classes;
    uint64_t fuel;
    size_t memory_bytes_max;
    int failure; /* 0, GRAMMAR_E_TOO_COMPLEX, -ENOMEM */
} ByteRegex;

/* 0 or -errno. The store must not move afterwards. */
int byte_regex_init(ByteRegex *store, uint64_t fuel, size_t memory_bytes_max);
void byte_regex_deinit(ByteRegex *store);
ByteRegex *byte_regex_free(ByteRegex *store);                 /* of one on the heap; NULL is allowed; returns NULL */
int byte_regex_copy(ByteRegex *store, const ByteRegex *from); /* same ids; 0 or -errno */
size_t byte_regex_memory_bytes(const ByteRegex *store);

/* --- nodes (byte_regex.c) ----------------------------------------------------------------------------------------- */
RegexId byte_regex_set(ByteRegex *store, const ByteSet *set);
RegexId byte_regex_range(ByteRegex *store, uint8_t first, uint8_t last);
RegexId byte_regex_bytes(ByteRegex *store, const uint8_t *bytes, size_t n);
RegexId byte_regex_concat(ByteRegex *store, RegexId a, RegexId b);
RegexId byte_regex_choice(ByteRegex *store, const RegexId *parts, size_t n); /* parts lie outside of the store */
RegexId byte_regex_and(ByteRegex *store, const RegexId *parts, size_t n);
RegexId byte_regex_not(ByteRegex *store, RegexId part);
RegexId byte_regex_repeat(ByteRegex *store, RegexId part, uint32_t min, uint32_t max);

/* --- what follows (byte_regex_derive.c) --------------------------------------------------------------------------- */
/* Divides the bytes into classes by the sets in the expressions. 0 or -ENOMEM. */
int byte_regex_set_classes(ByteRegex *store, const RegexId *roots, size_t n);
/* Returns the expression of what may follow the byte. */
RegexId byte_regex_derive(ByteRegex *store, RegexId id, uint8_t byte);
/* Returns the bytes of a short text, the shortest where no logic is inside; REGEX_NEVER: there is no text. A text of
 * n + 1 bytes begins with a byte whose derivative has one of n. Needs the classes. */
uint32_t byte_regex_end_bytes(ByteRegex *store, RegexId id);

/* Takes fuel for n steps, each as cheap as a look at a part of a list. A lack of fuel is a failure. */
void byte_regex_burn(ByteRegex *store, uint64_t n_steps);

/* --- for both ----------------------------------------------------------------------------------------------------- */
int byte_regex_push(ByteRegex *store, uint32_t word); /* to scratch; a failure is the store's */
RegexId byte_regex_choice_of_scratch(ByteRegex *store, size_t base);
RegexId byte_regex_and_of_scratch(ByteRegex *store, size_t base);

static inline uint32_t byte_regex_word(const ByteRegex *store, RegexId id, size_t i) {
    size_t n;

    return tuple_store_words(&store->nodes, id, &n)[1 + i];
}
static inline size_t byte_regex_n_words(const ByteRegex *store, RegexId id) {
    size_t n;

    tuple_store_words(&store->nodes, id, &n);
    return n - 1;
}
static inline const ByteSet *byte_regex_first(const ByteRegex *store, RegexId id) {
    size_t n;

    return (const ByteSet *)tuple_store_words(&store->sets, store->infos[id].first, &n);
}

#endif
