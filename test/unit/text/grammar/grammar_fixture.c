// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/text/grammar/grammar_fixture.h"

#include <assert.h>
#include <stdlib.h>

TokenTrie *fixture_trie(const char *const *tokens, uint32_t n) {
    uint8_t bytes[256];
    TokenBytes *all = calloc(256 + n, sizeof(*all));
    TokenTrie *trie = NULL;

    assert(all);
    for (uint32_t i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
        all[i] = (TokenBytes){ bytes + i, 1 };
    }
    for (uint32_t i = 0; i < n; i++)
        all[256 + i] = (TokenBytes){ (const uint8_t *)tokens[i], (uint32_t)strlen(tokens[i]) };
    assert_int_equal(token_trie_new(&trie, all, 256 + n), 0);
    free(all);
    return trie;
}

GrammarMatcher *fixture_finish(GrammarBuilder *builder, GrammarPart root, TokenTrie *trie) {
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    GrammarMatcher *matcher = NULL;
    ErrText err = { .text = "" };

    if (grammar_builder_finish(builder, root, &grammar, &err))
        fail_msg("%s", err.text);
    grammar_builder_free(builder);
    assert_int_equal(grammar_matcher_new(&matcher, grammar, trie, &GRAMMAR_MATCHER_LIMITS_DEFAULT), 0);
    return matcher;
}

GrammarMatcher *fixture_gbnf(const char *text, TokenTrie *trie) {
    GrammarBuilder *builder = NULL;
    GrammarPart root = 0;
    ErrText err = { .text = "" };

    assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
    if (gbnf_parse(builder, text, strlen(text), &root, &err))
        fail_msg("%s", err.text);
    return fixture_finish(builder, root, trie);
}

GrammarMatcher *fixture_regex(const char *pattern, unsigned int flags, TokenTrie *trie) {
    GrammarBuilder *builder = NULL;
    GrammarPart root = 0;
    ErrText err = { .text = "" };

    assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
    if (grammar_part_regex(builder, pattern, strlen(pattern), flags, &root, &err))
        fail_msg("%s: %s", pattern, err.text);
    return fixture_finish(builder, root, trie);
}

bool fixture_fits(GrammarMatcher *matcher, const void *text, size_t n_bytes) {
    GrammarState state = grammar_matcher_start(matcher);
    int r = grammar_matcher_advance_bytes(matcher, state, text, n_bytes, &state);

    assert_true(!r || r == GRAMMAR_E_REFUSED);
    return !r && grammar_matcher_is_end_allowed(matcher, state);
}

static void check(GrammarMatcher *matcher, const char *name, const char *const *good, const char *const *bad) {
    for (; *good; good++)
        if (!fixture_fits(matcher, *good, strlen(*good)))
            fail_msg("%s refuses \"%s\"", name, *good);
    for (; *bad; bad++)
        if (fixture_fits(matcher, *bad, strlen(*bad)))
            fail_msg("%s allows \"%s\"", name, *bad);
}

void fixture_check_gbnf(const char *text, const char *const *good, const char *const *bad) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(NULL, 0);
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = fixture_gbnf(text, trie);

    check(matcher, text, good, bad);
}

void fixture_check_regex(const char *pattern, unsigned int flags, const char *const *good, const char *const *bad) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(NULL, 0);
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = fixture_regex(pattern, flags, trie);

    check(matcher, pattern, good, bad);
}
