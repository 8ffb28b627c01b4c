// SPDX-License-Identifier: Apache-2.0
/* All substrings of one or several texts of tokens, in flat arrays: a state stands for the substrings that end at the
 * same places. Appending costs O(1) amortised, and no single append costs much more: nothing is copied or hashed anew
 * as the automaton grows. Memory is at most SUFFIX_AUTOMATON_TOKEN_BYTES a token, as many as states and edges need, in
 * chunks. There is no way back to a shorter text: free the automaton and build it anew. */
#ifndef COORDGEN_SPEC_SUFFIX_AUTOMATON_H
#define COORDGEN_SPEC_SUFFIX_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/memory/account.h"

enum {
    SUFFIX_AUTOMATON_TOKEN_BYTES = 92, /* 2 states of 32 bytes, an edge of 24, the token */
    SUFFIX_AUTOMATON_RECENT = 16       /* states of the newest and longest suffixes that an append counts */
};

typedef struct SuffixAutomaton SuffixAutomaton;

/* The longest suffix of a path that occurs in the text: len of the path's tokens. All zero: the empty match. */
typedef struct SuffixMatch {
    uint32_t state, len;
} SuffixMatch;

/* A token that came behind a state's strings; count and last_end belong to the strings with the token. */
typedef struct SuffixNext {
    uint32_t token, count, last_end;
} SuffixNext;

/* 0, -ENOMEM, -errno of the hash's key. */
int suffix_automaton_new(AccountTable *accounts, SuffixAutomaton **automatonp);
void suffix_automaton_free(SuffixAutomaton *automaton);
DEFINE_CLEANUP(SuffixAutomaton, suffix_automaton_free)
/* Reserves room: appends of n tokens in all cannot fail afterwards. Errors as append. */
int suffix_automaton_reserve(SuffixAutomaton *automaton, size_t n);
int suffix_automaton_append(SuffixAutomaton *automaton, const uint32_t *tokens, size_t n);
/* Ends a text: the next append begins another, and no substring runs across. */
void suffix_automaton_border(SuffixAutomaton *automaton);
SuffixMatch suffix_automaton_follow(const SuffixAutomaton *automaton, SuffixMatch match, uint32_t token);
/* Settles a match that was found before the last appends, before it is used again. A state is split when a shorter
 * string of it turns up elsewhere; that string's state is then the link. */
SuffixMatch suffix_automaton_settled(const SuffixAutomaton *automaton, SuffixMatch match);
size_t suffix_automaton_nexts(const SuffixAutomaton *automaton, uint32_t state, uint32_t *tokens, size_t max);
/* Steps through a state's continuations: the oldest, then the others from the newest on. *atp is 0 at first; false:
 * there is no further one. */
bool suffix_automaton_next(const SuffixAutomaton *automaton, uint32_t state, uint32_t *atp, SuffixNext *nextp);
/* Returns how often a state's strings came: exactly, or less where longer ones come back many times over. */
uint32_t suffix_automaton_count(const SuffixAutomaton *automaton, uint32_t state);
/* Returns the index behind the first occurrence of a state's strings: what follows them starts there. */
uint32_t suffix_automaton_first_end(const SuffixAutomaton *automaton, uint32_t state);
/* Returns the state of the longest shorter suffix that occurs elsewhere too, and the length of a state's longest
 * string. */
uint32_t suffix_automaton_link(const SuffixAutomaton *automaton, uint32_t state);
uint32_t suffix_automaton_len(const SuffixAutomaton *automaton, uint32_t state);
uint32_t suffix_automaton_token(const SuffixAutomaton *automaton, uint32_t i);
size_t suffix_automaton_n_tokens(const SuffixAutomaton *automaton);
size_t suffix_automaton_n_states(const SuffixAutomaton *automaton);
uint64_t suffix_automaton_bytes(const SuffixAutomaton *automaton);
/* Returns the bytes that the automaton would have after suffix_automaton_reserve(). */
uint64_t suffix_automaton_bytes_for(const SuffixAutomaton *automaton, size_t n);
/* Returns how many links all appends have walked: tests hold that against the length of the text. */
uint64_t suffix_automaton_steps(const SuffixAutomaton *automaton);

#endif
