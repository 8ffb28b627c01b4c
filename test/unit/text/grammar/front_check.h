// SPDX-License-Identifier: Apache-2.0
/* What fuzzers of a front check of any grammar that the front accepts, with a text that may fit. */
#ifndef COORDGEN_TEST_FRONT_CHECK_H
#define COORDGEN_TEST_FRONT_CHECK_H

#include <assert.h>
#include <string.h>

#include "test/unit/text/grammar/part_program.h"

/* Limits below the service's, so that inputs do not take the fuzzer's time. */
#define FRONT_LIMITS ((GrammarLimits){ .parts_max = 20000, .memory_bytes_max = 16u << 20, .fuel_max = 100000 })
#define FRONT_MATCHER_LIMITS ((GrammarMatcherLimits){ .fuel_max = 5000, .memory_bytes_max = 32u << 20 })

/* Follows a text, and checks that masks say what single tokens say. */
static inline void front_check(GrammarBuilder *builder, GrammarPart root, const char *text, size_t n_text) {
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL;
    static TokenTrie *trie;
    ErrText err;
    GrammarState at;
    int r = grammar_builder_finish(builder, root, &grammar, &err);

    assert(r >= 0);
    if (r) {
        assert(memchr(err.text, 0, sizeof(err.text)) && err.text[0]);
        return;
    }
    trie = trie ? trie : program_trie();
    r = grammar_matcher_new(&matcher, grammar, trie, &FRONT_MATCHER_LIMITS);
    assert(!r);
    at = grammar_matcher_start(matcher);
    for (size_t i = 0; !r && i <= n_text && i < 200; i++) {
        uint64_t mask[TOKEN_MASK_WORDS(256)];
        uint8_t forced[8];
        uint32_t n_end;
        size_t n_forced;
        GrammarState next;

        if (grammar_matcher_mask(matcher, at, mask) || grammar_matcher_end_tokens(matcher, at, &n_end) ||
            grammar_matcher_forced(matcher, at, forced, sizeof(forced), &n_forced))
            break;
        assert(!n_end == grammar_matcher_is_end_allowed(matcher, at));
        for (uint32_t id = 0; id < 256; id++) {
            r = grammar_matcher_advance(matcher, at, id, &next);
            assert(r == GRAMMAR_E_TOO_COMPLEX || !r == !!(mask[id / 64] >> (id % 64) & 1));
        }
        r = i < n_text ? grammar_matcher_advance_bytes(matcher, at, text + i, 1, &at) : 0;
        assert(r != 0 || i == n_text || !n_forced || forced[0] == (uint8_t)text[i]);
    }
}

/* Cuts an input at the line of a mark. Returns the text behind; *n_textp: its bytes. */
static inline const char *front_cut(const uint8_t *data, size_t len_bytes, size_t *n_frontp, size_t *n_textp) {
    const char mark[] = "\n====\n";

    for (size_t i = 0; i + sizeof(mark) - 1 <= len_bytes; i++)
        if (!memcmp(data + i, mark, sizeof(mark) - 1)) {
            *n_frontp = i;
            *n_textp = len_bytes - i - (sizeof(mark) - 1);
            return (const char *)data + i + sizeof(mark) - 1;
        }
    *n_frontp = len_bytes;
    *n_textp = 0;
    return (const char *)data;
}

#endif
