// SPDX-License-Identifier: Apache-2.0
/* States of a matcher and the ways between them, for its parts: steps, masks, ways to an end.
 * grammar_matcher.h comes before. */
#ifndef COORDGEN_TEXT_GRAMMAR_MATCHER_PRIVATE_H
#define COORDGEN_TEXT_GRAMMAR_MATCHER_PRIVATE_H

#include "text/grammar/grammar_private.h"
#include "text/grammar/parser_rows.h"
#include "text/grammar/plain_chars.h"
#include "text/grammar/token_trie_private.h"

#define STATE_DEAD 0u
#define STATE_UNKNOWN UINT32_MAX
#define CLASS_NONE 0xffffu

/* A lexeme that may be under way: it began at row, and what is left of it is rest. */
typedef struct StateThread {
    uint32_t row;
    uint32_t lexeme;
    RegexId rest;
} StateThread;

typedef struct MatcherState {
    uint32_t *next;      /* [n_classes], states behind a byte of each class; NULL: not looked at yet */
    uint32_t end_bytes;  /* REGEX_UNKNOWN: not looked at yet */
    uint32_t end_tokens; /* REGEX_UNKNOWN: not looked at yet */
    uint16_t end_class;  /* class of the first byte of that way, or CLASS_NONE */
    uint8_t n_plain;     /* plain characters that may come whatever they are, + 1; 0: not looked at yet */
    uint8_t plain_place; /* PlainPlace at which they were counted */
    bool is_plain_exact; /* no text of more plain characters may come */
    bool is_end;
} MatcherState;

enum {
    MASKS_N = 64, /* a power of two */
};

typedef struct KeptMask {
    uint32_t state; /* STATE_DEAD: free */
    uint64_t *words;
} KeptMask;

/* Plain characters along the classes of bytes, made by the first count: a byte of a class leads from a place to the
 * next one. */
typedef struct PlainEdge {
    uint8_t class;
    uint8_t next; /* PlainPlace */
} PlainEdge;

/* Whether an expression is one character, of which any plain one may come. */
typedef struct PlainUnit {
    RegexId id;
    bool is_known;
    bool is_unit;
} PlainUnit;

enum {
    PLAIN_EDGES_MAX = 590, /* as many as there are bytes of the places */
};

typedef struct PlainEdges {
    ByteSet first; /* bytes that begin a plain character */
    PlainEdge edges[PLAIN_EDGES_MAX];
    uint16_t ends[_PLAIN_PLACES_N]; /* where the edges of a place end */
    PlainUnit units[16];            /* by the expression's number */
} PlainEdges;

struct GrammarMatcher {
    Grammar *grammar;
    TokenTrie *trie;
    GrammarMatcherLimits limits;
    ByteRegex regex;
    ParserRows rows;
    TupleStore keys; /* of states: whether the text may end, threads */
    MatcherState *states;
    uint32_t room_states;
    uint32_t n_tables;    /* states with next */
    StateThread *threads; /* of the state under construction */
    uint32_t n_threads, room_threads;
    GrammarState start;
    KeptMask masks[MASKS_N];
    PlainEdges plain;
};

/* Gives a call its fuel, and forgets the failure of an earlier one. */
void matcher_begin_call(GrammarMatcher *matcher);
/* Returns the state behind a byte of a class; on a failure, which is matcher->regex.failure, STATE_DEAD. */
GrammarState matcher_step_new(GrammarMatcher *matcher, GrammarState state, uint32_t class);
/* Returns the ways from a state; NULL: no memory. */
const uint32_t *matcher_table_new(GrammarMatcher *matcher, GrammarState state);

static inline const uint32_t *matcher_table(GrammarMatcher *matcher, GrammarState state) {
    const uint32_t *table = matcher->states[state].next;

    return table ? table : matcher_table_new(matcher, state);
}

static inline GrammarState matcher_step(GrammarMatcher *matcher, GrammarState state, uint32_t class) {
    const uint32_t *table = matcher_table(matcher, state);

    if (!table)
        return STATE_DEAD;
    return table[class] == STATE_UNKNOWN ? matcher_step_new(matcher, state, class) : table[class];
}

static inline const StateThread *matcher_threads(const GrammarMatcher *matcher, GrammarState state, size_t *np) {
    const uint32_t *words = tuple_store_words(&matcher->keys, state, np);

    *np /= 3; /* the word in front tells whether the text may end */
    return (const StateThread *)(words + 1);
}

#endif
