// SPDX-License-Identifier: Apache-2.0
/* The matcher: masks are what single tokens say, forced bytes, ways to an end, limits. */
#undef NDEBUG
#include "test/unit/text/grammar/grammar_fixture.h"

#include <errno.h>
#include <stdlib.h>

#define JSON                                                                                                           \
    "root ::= value\n"                                                                                                 \
    "value ::= object | array | string | number | \"true\" | \"null\"\n"                                               \
    "object ::= \"{\" (string \":\" value (\",\" string \":\" value)*)? \"}\"\n"                                       \
    "array ::= \"[\" (value (\",\" value)*)? \"]\"\n"                                                                  \
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\nt])* \"\\\"\"\n"                                     \
    "number ::= \"-\"? [0-9]+ (\".\" [0-9]+)?\n"

static const char *const tokens[] = { "ab",
                                      "abc",
                                      "{\"",
                                      "\":",
                                      "\",\"",
                                      "},{",
                                      "[[",
                                      "]]",
                                      "]}",
                                      "12",
                                      "1.5",
                                      "true",
                                      "tr",
                                      "ue,",
                                      "\\n",
                                      "\\\"x",
                                      "\xc3\xa9",
                                      "\xc3\xa9t\xc3\xa9",
                                      "\xc3",
                                      "\xa9\"",
                                      "abcdefghijklmnop",
                                      "ab",
                                      " ",
                                      "hello world",
                                      "abcdefg",
                                      "{\"abc\":[1,true,\"x\\n\"]}" };

#define N_TOKENS (256 + ARRAY_LEN(tokens))

/* Checks masks and the counts of ways to an end in a state. */
static void check_state(GrammarMatcher *matcher, GrammarState state) {
    uint64_t mask[TOKEN_MASK_WORDS(N_TOKENS)], to_end[TOKEN_MASK_WORDS(N_TOKENS)];
    uint32_t n_tokens, n_bytes;
    bool has_any = false;

    assert_int_equal(grammar_matcher_mask(matcher, state, mask), 0);
    assert_int_equal(grammar_matcher_end_tokens(matcher, state, &n_tokens), 0);
    assert_int_equal(grammar_matcher_end_bytes(matcher, state, &n_bytes), 0);
    assert_true(n_tokens <= n_bytes);
    assert_int_equal(!n_bytes, grammar_matcher_is_end_allowed(matcher, state));
    assert_int_equal(grammar_matcher_mask_to_end(matcher, state, n_tokens, to_end), 0);
    for (uint32_t token = 0; token < N_TOKENS; token++) {
        GrammarState next;
        const bool is_set = mask[token / 64] >> (token % 64) & 1, is_near = to_end[token / 64] >> (token % 64) & 1;
        uint32_t n_next;
        const int r = grammar_matcher_advance(matcher, state, token, &next);

        assert_int_equal(r, is_set ? 0 : GRAMMAR_E_REFUSED);
        assert_true(is_set || !is_near);
        if (r)
            continue;
        assert_int_equal(grammar_matcher_end_tokens(matcher, next, &n_next), 0);
        assert_int_equal(is_near, n_next < n_tokens);
        has_any = has_any || is_near;
    }
    assert_true(has_any || !n_tokens);
}

/* Walks by allowed tokens, which a number chooses, and then by the way to an end. */
static void check_walk(GrammarMatcher *matcher, uint32_t seed, int n_steps) {
    GrammarState at = grammar_matcher_start(matcher);
    uint64_t mask[TOKEN_MASK_WORDS(N_TOKENS)];
    uint32_t n_left;

    for (int i = 0; i < n_steps; i++) {
        uint32_t token = (seed = seed * 1664525u + 1013904223u) >> 8;

        check_state(matcher, at);
        for (uint32_t k = 0; k < N_TOKENS; k++, token++)
            if (!grammar_matcher_advance(matcher, at, token % N_TOKENS, &at))
                break;
    }
    assert_int_equal(grammar_matcher_end_tokens(matcher, at, &n_left), 0);
    assert_true(n_left < UINT32_MAX);
    for (; n_left; n_left--) {
        uint32_t token = 0;

        assert_int_equal(grammar_matcher_mask_to_end(matcher, at, n_left, mask), 0);
        while (token < N_TOKENS && !(mask[token / 64] >> (token % 64) & 1))
            token++;
        assert_true(token < N_TOKENS);
        assert_int_equal(grammar_matcher_advance(matcher, at, token, &at), 0);
        if (grammar_matcher_is_end_allowed(matcher, at))
            break;
    }
    assert_true(grammar_matcher_is_end_allowed(matcher, at));
}

static void test_matcher_masks(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(tokens, ARRAY_LEN(tokens));
    const char *const grammars[] = {
        JSON,
        "root ::= root root | \"a\" root \"b\" | \"ab\"",
        "root ::= \"\\\"\" [^\"\\\\\\x00-\\x1f]{0,9} \"\\\"\" | \"\\\"\" [a-h]{12,40} \"\\\"\" | [1]? root",
        "root ::= (\"abc\" | \"ab\" | \"c\" root \"c\")* \"{\"",
        "root ::= \"\" | .{3} root",
    };

    for (size_t i = 0; i < ARRAY_LEN(grammars); i++)
        for (uint32_t seed = 0; seed < 12; seed++) {
            _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = fixture_gbnf(grammars[i], trie);

            check_walk(matcher, seed, 25);
        }
}

static void test_matcher_logic(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(tokens, ARRAY_LEN(tokens));
    const char *const sides[][2] = { { "[a-h]*", ".{5,20}" },
                                     { "(ab|abc|c)*", "[^c]*c[^c]*c" },
                                     { ".*12.*", ".*true.*" } };

    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL;
        GrammarBuilder *builder = NULL;
        GrammarPart parts[3];

        assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
        for (int k = 0; k < 2; k++)
            assert_int_equal(grammar_part_regex(builder, sides[i][k], strlen(sides[i][k]), 0, &parts[k], NULL), 0);
        parts[0] = grammar_part_and(builder, parts[0], parts[1]);
        parts[1] = grammar_part_bytes(builder, "abcdefg", 7);
        parts[0] = grammar_part_and(builder, parts[0], grammar_part_not(builder, parts[1]));
        matcher = fixture_finish(builder, parts[0], trie);
        assert_false(fixture_fits(matcher, "abcdefg", 7));
        for (uint32_t seed = 0; seed < 10; seed++)
            check_walk(matcher, seed, 8);
    }
}

static void test_matcher_disjoint(void **state) {
    static const struct {
        const char *a, *b;
        bool is_disjoint;
    } cases[] = { { "[a-c]+", "[d-f]+", true }, { "[a-c]+", "[c-f]+", false }, { "(ab)*", "a(ba)*", true },
                  { "a{3,5}", "(aa)*", false }, { "a{3}", "(aa)*", true },     { ".*x", ".*y", true },
                  { "x.*", ".*y", false },      { "a*", "b*", false } };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
        GrammarPart a, b, rule;
        bool nothing = !cases[i].is_disjoint;

        assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
        assert_int_equal(grammar_part_regex(builder, cases[i].a, strlen(cases[i].a), 0, &a, NULL), 0);
        assert_int_equal(grammar_part_regex(builder, cases[i].b, strlen(cases[i].b), 0, &b, NULL), 0);
        rule = grammar_part_rule(builder, "a");
        grammar_rule_set(builder, rule, a);
        assert_int_equal(grammar_builder_allows_nothing(builder, grammar_part_and(builder, rule, b), &nothing, NULL),
                         0);
        assert_int_equal(nothing, cases[i].is_disjoint);
        grammar_rule_set(builder, rule, grammar_part_and(builder, rule, b));
        assert_int_equal(grammar_builder_allows_nothing(builder, rule, &nothing, NULL), GRAMMAR_E_UNSUPPORTED);
    }
}

static void test_matcher_forced(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(tokens, ARRAY_LEN(tokens));
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher =
        fixture_gbnf("root ::= \"{\\\"name\\\":\" (\"true\" | \"truly\" | \"t\") [0] \"end\"", trie);
    GrammarState at = grammar_matcher_start(matcher);
    uint8_t bytes[64];
    size_t n;

    assert_int_equal(grammar_matcher_forced(matcher, at, bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 9);
    assert_memory_equal(bytes, "{\"name\":t", 9);
    assert_int_equal(grammar_matcher_forced(matcher, at, bytes, 4, &n), 0);
    assert_int_equal(n, 4);
    assert_int_equal(grammar_matcher_advance_bytes(matcher, at, "{\"name\":true", 12, &at), 0);
    assert_int_equal(grammar_matcher_forced(matcher, at, bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 4);
    assert_memory_equal(bytes, "0end", 4);
    assert_int_equal(grammar_matcher_advance_bytes(matcher, at, "0end", 4, &at), 0);
    assert_int_equal(grammar_matcher_forced(matcher, at, bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 0);
}

/* Members of a rule in any order, and what of them are required or repeated, as bits. */
typedef struct AnyOrder {
    const char *members[5];
    unsigned int n, required, repeated;
} AnyOrder;

static GrammarPart any_order_part(GrammarBuilder *builder, const AnyOrder *one) {
    GrammarMember members[ARRAY_LEN(one->members)];

    for (unsigned int i = 0; i < one->n; i++)
        members[i] = (GrammarMember){ grammar_part_bytes(builder, one->members[i], strlen(one->members[i])),
                                      one->required >> i & 1, one->repeated >> i & 1 };
    return grammar_part_unordered(builder, members, one->n, grammar_part_bytes(builder, ",", 1));
}

/* Tries every member at the start of the text, and then the others behind a comma. */
static bool any_order_fits(const AnyOrder *one, const char *text, unsigned int seen, bool has_begun) {
    if (!*text && !(one->required & ~seen))
        return true;
    if (has_begun && *text++ != ',')
        return false;
    for (unsigned int i = 0; i < one->n; i++) {
        const size_t n = strlen(one->members[i]);

        if (!(seen & 1u << i) && !strncmp(text, one->members[i], n) &&
            any_order_fits(one, text + n, one->repeated & 1u << i ? seen : seen | 1u << i, true))
            return true;
    }
    return false;
}

/* Every text of six letters at most, beside a search. */
static void test_matcher_any_order(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(tokens, ARRAY_LEN(tokens));
    static const AnyOrder examples[] = {
        { { "a", "b", "ab" }, 3, 1, 0 },
        { { "a", "b", "c", "bc" }, 4, 0, 8 },
        { { "a", "a,b", "b", "c" }, 4, 5, 0 },
        { { "a", "b", "a", "a" }, 4, 4, 2 },
        { { "abc", "c" }, 2, 3, 0 },
        { { "b", "c", "b,c" }, 3, 0, 1 },
        { { "a", "b", "c", "ab" }, 4, 7, 8 },
        { { "c" }, 1, 1, 1 },
        { { "c" }, 1, 0, 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(examples); i++) {
        _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL;
        GrammarBuilder *builder = NULL;

        assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
        matcher = fixture_finish(builder, any_order_part(builder, &examples[i]), trie);
        for (unsigned int number = 0; number < 1u << 12; number++) {
            char text[7] = "";

            for (unsigned int n = 0, left = number; n < 6; n++, left /= 4)
                text[n] = "abc,"[left % 4];
            for (size_t n = 0; n <= 6; n++) {
                char start[7] = "";

                memcpy(start, text, n);
                if (fixture_fits(matcher, start, n) != any_order_fits(&examples[i], start, 0, false))
                    fail_msg("%zu: %s", i, start);
            }
        }
    }
}

/* Masks, ways to an end and forced bytes inside of rules that hold each other. */
static void test_matcher_any_order_nested(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(tokens, ARRAY_LEN(tokens));
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL;
    GrammarBuilder *builder = NULL;
    GrammarPart rule, word, body, one, two;
    GrammarState at;
    uint8_t bytes[16];
    size_t n;

    assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
    rule = grammar_part_rule(builder, NULL);
    word = grammar_part_repeat(builder, grammar_part_class(builder, &(GrammarRange){ 'd', 'f' }, 1, 0), 1, 9);
    one = grammar_part_sequence(builder, (GrammarPart[]){ grammar_part_bytes(builder, "a", 1), rule }, 2);
    two = grammar_part_bytes(builder, "bcd", 3);
    body = grammar_part_unordered(
        builder, (GrammarMember[]){ { one, false, false }, { two, true, false }, { word, false, true } }, 3,
        grammar_part_bytes(builder, "\",\"", 3));
    body = grammar_part_sequence(
        builder, (GrammarPart[]){ grammar_part_bytes(builder, "{", 1), body, grammar_part_bytes(builder, "}", 1) }, 3);
    grammar_rule_set(builder, rule, body);
    matcher = fixture_finish(builder, rule, trie);
    for (uint32_t seed = 0; seed < 12; seed++)
        check_walk(matcher, seed, 25);
    assert_true(fixture_fits(matcher, "{a{bcd}\",\"def\",\"bcd}", 20));
    assert_false(fixture_fits(matcher, "{bcd\",\"a{bcd}\",\"bcd}", 20));
    assert_false(fixture_fits(matcher, "{a{d}\",\"bcd}", 12));
    /* Only a first letter is free: a 'b' has one way to go on, up to where there are two. */
    assert_int_equal(grammar_matcher_forced(matcher, grammar_matcher_start(matcher), bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 1);
    at = grammar_matcher_start(matcher);
    assert_int_equal(grammar_matcher_advance_bytes(matcher, at, "{b", 2, &at), 0);
    assert_int_equal(grammar_matcher_forced(matcher, at, bytes, sizeof(bytes), &n), 0);
    assert_int_equal(n, 2);
    assert_memory_equal(bytes, "cd", 2);
}

/* What a builder says of members that it cannot have. */
static void test_matcher_any_order_errors(void **state) {
    static const int wanted[] = { -EINVAL, -EINVAL, 0, GRAMMAR_E_TOO_COMPLEX };
    GrammarMember members[GRAMMAR_UNORDERED_MAX + 1] = { { 0 } };

    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
        Grammar *grammar = NULL;
        GrammarPart root;
        ErrText err;

        assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
        for (size_t k = 0; k < ARRAY_LEN(members); k++)
            members[k].part = i ? grammar_part_bytes(builder, "a", 1) : grammar_part_empty(builder);
        root = i == 1 ? grammar_part_empty(builder) : grammar_part_bytes(builder, ",", 1);
        root = grammar_part_unordered(builder, members, ARRAY_LEN(members) - (i < 3), root);
        assert_int_equal(grammar_builder_finish(builder, root, &grammar, &err), wanted[i]);
        grammar_unref(grammar);
    }
}

static void test_matcher_control_tokens(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = NULL;
    const TokenBytes list[] = {
        { (const uint8_t *)"a", 1 }, { NULL, 0 }, { (const uint8_t *)"aa", 2 }, { (const uint8_t *)"a", 1 }
    };
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL;
    GrammarState at;
    uint64_t mask;

    assert_int_equal(token_trie_new(&trie, list, 4), 0);
    matcher = fixture_gbnf("root ::= .*", trie);
    at = grammar_matcher_start(matcher);
    assert_int_equal(grammar_matcher_mask(matcher, at, &mask), 0);
    assert_int_equal(mask, 13);
    assert_int_equal(grammar_matcher_advance(matcher, at, 1, &at), GRAMMAR_E_REFUSED);
    assert_int_equal(grammar_matcher_advance(matcher, at, 4, &at), GRAMMAR_E_REFUSED);
}

/* Where the vocabulary lacks the bytes, no way of tokens leads to the end. */
static void test_matcher_vocabulary_without_bytes(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = NULL;
    const TokenBytes list[] = { { (const uint8_t *)"a", 1 } };
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL;
    uint32_t n;

    assert_int_equal(token_trie_new(&trie, list, 1), 0);
    matcher = fixture_gbnf("root ::= \"ab\"", trie);
    assert_int_equal(grammar_matcher_end_tokens(matcher, grammar_matcher_start(matcher), &n), 0);
    assert_int_equal(n, UINT32_MAX);
    assert_int_equal(grammar_matcher_end_bytes(matcher, grammar_matcher_start(matcher), &n), 0);
    assert_int_equal(n, 2);
}

/* What would take long ends in a condition, and the matcher goes on with the same results. */
static void test_matcher_limits(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(tokens, ARRAY_LEN(tokens));
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = NULL, *other = NULL;
    GrammarMatcherLimits limits = GRAMMAR_MATCHER_LIMITS_DEFAULT;
    uint64_t mask[TOKEN_MASK_WORDS(N_TOKENS)], wanted[TOKEN_MASK_WORDS(N_TOKENS)];
    GrammarPart root;
    GrammarState at;
    int r, n_calls = 0;

    assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
    assert_int_equal(gbnf_parse(builder, JSON, strlen(JSON), &root, NULL), 0);
    assert_int_equal(grammar_builder_finish(builder, root, &grammar, NULL), 0);
    assert_int_equal(grammar_matcher_new(&matcher, grammar, trie, &limits), 0);
    assert_int_equal(grammar_matcher_mask(matcher, grammar_matcher_start(matcher), wanted), 0);
    limits.fuel_max = 25;
    assert_int_equal(grammar_matcher_new(&other, grammar, trie, &limits), 0);
    do { /* each call finds some more */
        r = grammar_matcher_mask(other, grammar_matcher_start(other), mask);
        assert_true(!r || r == GRAMMAR_E_TOO_COMPLEX);
    } while (r && n_calls++ < 1000);
    assert_true(n_calls > 1);
    assert_int_equal(r, 0);
    assert_memory_equal(mask, wanted, sizeof(mask));

    /* The 16th byte from the end: as many states as texts. */
    grammar_matcher_free(other);
    other = fixture_regex("(a|b)*a(a|b){16}", 0, trie);
    at = grammar_matcher_start(other);
    for (uint32_t i = 0, seed = 1;
         i < 100000 && !(r = grammar_matcher_advance_bytes(other, at, seed >> 16 & 1 ? "a" : "b", 1, &at)); i++)
        seed = seed * 1664525u + 1013904223u;
    assert_true(!r || r == GRAMMAR_E_TOO_COMPLEX);
    assert_int_equal(grammar_matcher_forget(other), 0);
    assert_int_equal(grammar_matcher_advance_bytes(other, grammar_matcher_start(other), "abba", 4, &at), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matcher_masks),
        cmocka_unit_test(test_matcher_logic),
        cmocka_unit_test(test_matcher_disjoint),
        cmocka_unit_test(test_matcher_forced),
        cmocka_unit_test(test_matcher_control_tokens),
        cmocka_unit_test(test_matcher_vocabulary_without_bytes),
        cmocka_unit_test(test_matcher_limits),
        cmocka_unit_test(test_matcher_any_order),
        cmocka_unit_test(test_matcher_any_order_nested),
        cmocka_unit_test(test_matcher_any_order_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
