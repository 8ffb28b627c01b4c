// SPDX-License-Identifier: Apache-2.0
/* JSON schemas with values: a schema, a line of "====", then values with lines of "----" between. Whatever the schema
 * is, it becomes a grammar or an error, within the limits. A value is followed as far as the grammar allows it. */
#define _GNU_SOURCE
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/schema/schema_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

/* Limits below the service's, so that inputs do not take the fuzzer's time. */
#define PARTS_MAX (1u << 14)
#define MEMORY_BYTES_MAX (16u << 20)
#define FUEL_MAX 50000
#define VALUE_BYTES_MAX 200

/* Cuts a text at the line of a mark. Returns the text behind the mark; NULL: there is no mark. */
static const char *cut(const char *text, size_t left, const char *mark, size_t *len_bytesp) {
    const char *found = memmem(text, left, mark, strlen(mark));

    *len_bytesp = found ? (size_t)(found - text) : left;
    return found ? found + strlen(mark) : NULL;
}

static int make(const char *schema, size_t len_bytes, Grammar **grammarp) {
    const SchemaOptions options = { .is_compact = len_bytes & 1, .is_any_order = len_bytes & 2 };
    const GrammarLimits limits = { PARTS_MAX, MEMORY_BYTES_MAX, FUEL_MAX };
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    GrammarPart part;
    ErrText err = { 0 };
    int r = grammar_builder_new(&builder, &limits);

    assert(!r);
    r = grammar_part_json_schema(builder, schema, len_bytes, &options, &part, &err);
    if (!r)
        r = grammar_builder_finish(builder, part, grammarp, &err);
    assert(!r || (r >= GRAMMAR_E_SYNTAX && r <= GRAMMAR_E_NOTHING && err.text[0]));
    return r;
}

/* An end that is allowed is no way from an allowed end. */
static void follow(GrammarMatcher *matcher, const char *value, size_t n) {
    GrammarState state = grammar_matcher_start(matcher);
    uint32_t end_bytes;

    for (size_t i = 0; i < n; i++) {
        int r = grammar_matcher_advance_bytes(matcher, state, value + i, 1, &state);

        assert(!r || r == GRAMMAR_E_REFUSED || r == GRAMMAR_E_TOO_COMPLEX);
        if (r)
            return;
    }
    if (!grammar_matcher_end_bytes(matcher, state, &end_bytes))
        assert(!end_bytes == grammar_matcher_is_end_allowed(matcher, state));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    const GrammarMatcherLimits limits = { FUEL_MAX, MEMORY_BYTES_MAX };
    const TokenBytes token = { (const uint8_t *)"{", 1 };
    const char *schema = (const char *)data, *rest;
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    _cleanup_(token_trie_unrefp) TokenTrie *trie = NULL;
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL;
    size_t schema_bytes;
    int r;

    log_set_level(LOG_LEVEL_ERROR);
    if (len_bytes > 1 << 14)
        return 0;
    rest = cut(schema, len_bytes, "\n====\n", &schema_bytes);
    if (make(schema, schema_bytes, &grammar))
        return 0;
    r = token_trie_new(&trie, &token, 1);
    assert(!r);
    r = grammar_matcher_new(&matcher, grammar, trie, &limits);
    assert(!r);
    for (size_t n; rest;) {
        const char *value = rest;

        rest = cut(value, len_bytes - (size_t)(value - schema), "\n----\n", &n);
        follow(matcher, value, n < VALUE_BYTES_MAX ? n : VALUE_BYTES_MAX);
    }
    return 0;
}
