// SPDX-License-Identifier: Apache-2.0
/* Grammars and matchers for tests. */
#ifndef COORDGEN_TEST_GRAMMAR_FIXTURE_H
#define COORDGEN_TEST_GRAMMAR_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "text/grammar/gbnf.h"
#include "text/grammar/grammar_matcher.h"

/* A trie of all single bytes, which have the ids 0..255, and of n further tokens. */
TokenTrie *fixture_trie(const char *const *tokens, uint32_t n);
/* A matcher of a grammar in GBNF, or of a regular expression; the caller frees it. An error fails the test. */
GrammarMatcher *fixture_gbnf(const char *text, TokenTrie *trie);
GrammarMatcher *fixture_regex(const char *pattern, unsigned int flags, TokenTrie *trie);
/* Whether the whole text fits the grammar. */
bool fixture_fits(GrammarMatcher *matcher, const void *text, size_t n_bytes);
/* Checks texts, each ended by NULL in the list. */
void fixture_check_gbnf(const char *text, const char *const *good, const char *const *bad);
void fixture_check_regex(const char *pattern, unsigned int flags, const char *const *good, const char *const *bad);
/* Makes a grammar of the part, whose builder is freed. */
GrammarMatcher *fixture_finish(GrammarBuilder *builder, GrammarPart root, TokenTrie *trie);

#define TEXTS(...)                                                                                                     \
    (const char *const[]) {                                                                                            \
        __VA_ARGS__, NULL                                                                                              \
    }
#define NO_TEXTS ((const char *const[]){ NULL })

#endif
