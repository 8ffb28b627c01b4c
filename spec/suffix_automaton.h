// SPDX-License-Identifier: Apache-2.0
/* All substrings of a running text of tokens, in flat arrays: a state for each set of substrings that end at the same
 * places. Appending costs O(1) amortised. It takes SUFFIX_AUTOMATON_TOKEN_BYTES a token of capacity, and the capacity is
 * the next power of two (64 at least), so at most twice that a token of text; while it grows, old and new are there.
 * There is no way back to a shorter text: free it and build it anew. */
#ifndef COORDGEN_SPEC_SUFFIX_AUTOMATON_H
#define COORDGEN_SPEC_SUFFIX_AUTOMATON_H

#include <stddef.h>
#include <stdint.h>

#include "base/account.h"
#include "base/cleanup.h"

enum {
    SUFFIX_AUTOMATON_TOKEN_BYTES = 92, /* 2 states of 32, an edge of 16, 2 slots of 4, the token */
    SUFFIX_AUTOMATON_RECENT = 4        /* states of the newest suffixes whose latest end is renewed by an append */
};

typedef struct SuffixAutomaton SuffixAutomaton;

/* The longest suffix of some path that occurs in the text: len of its tokens. All zero: the empty match. */
typedef struct SuffixMatch {
    uint32_t state, len;
} SuffixMatch;

/* 0, -ENOMEM, -errno of the hash's key. */
int suffix_automaton_new(AccountTable *accounts, SuffixAutomaton **automatonp);
void suffix_automaton_free(SuffixAutomaton *automaton);
DEFINE_CLEANUP(SuffixAutomaton, suffix_automaton_free)
/* Appends of n tokens in all cannot fail afterwards. Errors as append. */
int suffix_automaton_reserve(SuffixAutomaton *automaton, size_t n);
int suffix_automaton_append(SuffixAutomaton *automaton, const uint32_t *tokens, size_t n);
SuffixMatch suffix_automaton_follow(const SuffixAutomaton *automaton, SuffixMatch match, uint32_t token);
size_t suffix_automaton_nexts(const SuffixAutomaton *automaton, uint32_t state, uint32_t *tokens, size_t max);
/* Of a state's strings: where one starts to go on, that is the index behind its first or a late occurrence. */
uint32_t suffix_automaton_first_end(const SuffixAutomaton *automaton, uint32_t state);
uint32_t suffix_automaton_last_end(const SuffixAutomaton *automaton, uint32_t state);
/* The state of the longest shorter suffix that occurs elsewhere too, and the length of a state's longest string. */
uint32_t suffix_automaton_link(const SuffixAutomaton *automaton, uint32_t state);
uint32_t suffix_automaton_len(const SuffixAutomaton *automaton, uint32_t state);
const uint32_t *suffix_automaton_text(const SuffixAutomaton *automaton, size_t *np);
size_t suffix_automaton_n_states(const SuffixAutomaton *automaton);
uint64_t suffix_automaton_bytes(const SuffixAutomaton *automaton);
/* Links walked by all appends so far: what tests hold against the length of the text. */
uint64_t suffix_automaton_steps(const SuffixAutomaton *automaton);

#endif
