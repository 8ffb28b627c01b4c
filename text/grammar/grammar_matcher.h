// SPDX-License-Identifier: Apache-2.0
/* Follows a grammar byte by byte or token by token, and tells which tokens may come next.
 *
 * A state is a number: copying it for a node of a draft tree costs nothing, and any state may be continued at any
 * time. Equal positions of a grammar have equal states, so what was found out once is a look-up later, also for
 * another answer with the same grammar. A matcher is used by one thread at a time. */
#ifndef COORDGEN_TEXT_GRAMMAR_MATCHER_H
#define COORDGEN_TEXT_GRAMMAR_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "text/grammar/grammar.h"
#include "text/grammar/token_trie.h"

enum {
    GRAMMAR_E_REFUSED = 5, /* the grammar does not allow that text here */
};

typedef uint32_t GrammarState;

/* Limits of a matcher. One that is reached is GRAMMAR_E_TOO_COMPLEX. */
typedef struct GrammarMatcherLimits {
    uint64_t fuel_max;       /* work of a call: a step that meets something new, or some nodes of a walk, is one */
    size_t memory_bytes_max; /* states and what belongs to them */
} GrammarMatcherLimits;

/* A unit of fuel takes 80 to 150 ns, at most 220 ns on a busy machine (docs/lab/structured-output.md): 3 to 5 ms. */
#define GRAMMAR_MATCHER_LIMITS_DEFAULT ((GrammarMatcherLimits){ .fuel_max = 33000, .memory_bytes_max = 128u << 20 })

typedef struct GrammarMatcher GrammarMatcher;

/* Makes a matcher, which counts references to grammar and trie. 0 or -ENOMEM or -errno. */
int grammar_matcher_new(GrammarMatcher **matcherp, Grammar *grammar, TokenTrie *trie,
                        const GrammarMatcherLimits *limits);
GrammarMatcher *grammar_matcher_free(GrammarMatcher *matcher);
DEFINE_CLEANUP(GrammarMatcher, grammar_matcher_free)
size_t grammar_matcher_memory_bytes(const GrammarMatcher *matcher);
/* Forgets all states but the start, for a matcher that has reached its limit on memory: the caller advances the bytes
 * of each answer anew. 0 or -errno; after an error only grammar_matcher_free() may follow. */
int grammar_matcher_forget(GrammarMatcher *matcher);

/* Sets the fuel of each later call, in place of the limits' fuel_max. */
void grammar_matcher_set_fuel(GrammarMatcher *matcher, uint64_t fuel);
/* Returns the fuel that the last call has left, or all of it if none came since grammar_matcher_set_fuel(). */
uint64_t grammar_matcher_fuel_left(const GrammarMatcher *matcher);

GrammarState grammar_matcher_start(const GrammarMatcher *matcher);
/* Whether the text may end here. */
bool grammar_matcher_is_end_allowed(const GrammarMatcher *matcher, GrammarState state);
/* Whether the text must end here: nothing may follow. */
bool grammar_matcher_is_complete(const GrammarMatcher *matcher, GrammarState state);
/* Advances by bytes. 0: *nextp is the state behind them; GRAMMAR_E_REFUSED; GRAMMAR_E_TOO_COMPLEX; -ENOMEM. */
int grammar_matcher_advance_bytes(GrammarMatcher *matcher, GrammarState state, const void *bytes, size_t n_bytes,
                                  GrammarState *nextp);
/* Advances by a token: this is also how a single candidate is tested. Errors are as above. */
int grammar_matcher_advance(GrammarMatcher *matcher, GrammarState state, uint32_t token, GrammarState *nextp);
/* Sets the bits of the tokens that may come next, mask[TOKEN_MASK_WORDS(n_tokens)]. The token that ends an answer is
 * not among them: see grammar_matcher_is_end_allowed(). 0, GRAMMAR_E_TOO_COMPLEX, -ENOMEM. */
int grammar_matcher_mask(GrammarMatcher *matcher, GrammarState state, uint64_t *mask);
/* Writes the bytes that must come next, at most n_max, to bytes: no other text goes on, and the end is not allowed
 * before. *n_bytesp: how many. 0, GRAMMAR_E_TOO_COMPLEX, -ENOMEM. */
int grammar_matcher_forced(GrammarMatcher *matcher, GrammarState state, uint8_t *bytes, size_t n_max, size_t *n_bytesp);

/* Counts the bytes of a short way to an allowed end: the shortest one, if the grammar has no intersections and
 * complements. UINT32_MAX: 4 GiB and more. 0, GRAMMAR_E_TOO_COMPLEX, -ENOMEM. */
int grammar_matcher_end_bytes(GrammarMatcher *matcher, GrammarState state, uint32_t *n_bytesp);
/* Counts the tokens of a short way to an allowed end. UINT32_MAX: the vocabulary cannot write it. From a state with n
 * such tokens, grammar_matcher_mask_to_end() of n allows at least one. */
int grammar_matcher_end_tokens(GrammarMatcher *matcher, GrammarState state, uint32_t *n_tokensp);
/* Sets the bits of the tokens behind which a way of at most n_left - 1 tokens leads to an allowed end. */
int grammar_matcher_mask_to_end(GrammarMatcher *matcher, GrammarState state, uint32_t n_left, uint64_t *mask);

#endif
