// SPDX-License-Identifier: Apache-2.0
/* Plain characters: their places, how many of them a state allows, and masks that need no walk because of it. */
#undef NDEBUG
#include "test/unit/text/grammar/grammar_fixture.h"

#include <stdlib.h>

#include "base/min_max.h"
#include "base/strings/utf8.h"
#include "text/grammar/grammar_matcher_private.h"
#include "text/grammar/grammar_plain.h"

/* --- places ------------------------------------------------------------------------------------------------------- */

static bool is_plain(uint32_t code) {
    return code >= 0x20 && code != '"' && code != '\\' && code != 0x7f && code != 0x2028 && code != 0x2029;
}

/* Whether bytes are whole plain characters. */
static bool is_plain_text(const uint8_t *bytes, size_t n) {
    PlainPlace place = PLAIN_BOUNDARY;

    for (size_t i = 0; i < n && place != PLAIN_NONE; i++)
        place = plain_step(place, bytes[i]);
    return place == PLAIN_BOUNDARY;
}

static void test_plain_places(void **state) {
    for (uint32_t first = 0; first < 256; first++)
        for (uint32_t second = 0; second < 256; second++)
            for (uint32_t third = 0x7f; third < 0xc1; third++)
                for (uint32_t fourth = 0; fourth < 2; fourth++) {
                    const uint8_t bytes[] = { (uint8_t)first, (uint8_t)second, (uint8_t)third,
                                              (uint8_t)(fourth ? 0xbf : 0x80) };
                    const size_t n = utf8_sequence(bytes, sizeof(bytes));
                    uint32_t code = first;

                    if (n > 1) {
                        code = first & (0x7fu >> n);
                        for (size_t i = 1; i < n; i++)
                            code = code << 6 | (bytes[i] & 0x3f);
                    }
                    if (n && is_plain_text(bytes, n) != is_plain(code))
                        fail_msg("%02x %02x %02x %02x", first, second, third, bytes[3]);
                    for (size_t i = 1; i < (n ? n : 5) && i <= sizeof(bytes); i++)
                        if (first >= 0x80 && is_plain_text(bytes, i))
                            fail_msg("%zu bytes of %02x %02x %02x %02x", i, first, second, third, bytes[3]);
                }
}

/* --- counts ------------------------------------------------------------------------------------------------------- */

#define ANY "[^\"\\\\\\x00-\\x1f]"

static void test_plain_counts(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(NULL, 0);
    static const struct {
        const char *grammar, *before;
        uint32_t n;
        bool is_exact;
    } cases[] = {
        { "root ::= " ANY "* \"\\\"\"", "", TRIE_CHARS_ENDLESS, false },
        { "root ::= " ANY "* \"\\\"\"", "abc", TRIE_CHARS_ENDLESS, false },
        { "root ::= " ANY "{0,9} \"\\\"\"", "", 9, true },
        { "root ::= " ANY "{0,9} \"\\\"\"", "\xc3\xa9z", 7, true },
        { "root ::= " ANY "{3,9} \"\\\"\"", "zz", 7, true },
        { "root ::= " ANY "{0,9} \"\\\"\"", "123456789", 0, true },
        { "root ::= " ANY "{9} " ANY "{0,3} \"\\\"\"", "", 12, true },
        { "root ::= " ANY "{2} " ANY "{0,3}", "", 5, false },
        { "root ::= (" ANY "{2,5} \"\\\"\" | " ANY "{1,3} \"\\n\") \" \"? \"a\"", "", 5, true },
        { "root ::= " ANY "{2,5} \"\\n\"? \"a\"", "", 5, false },
        { "root ::= " ANY "{2,5} \"\\n\"? \"\\\\\"", "", 5, true },
        { "root ::= " ANY " " ANY "{4} \"\\\"\"", "ab", 3, true },
        { "root ::= " ANY "{1,2} \"\\\"\"", "", 2, true },
        { "root ::= " ANY "{0,9} \"x\"", "", 9, false },
        { "root ::= " ANY "{0,9} \"x\"?", "", 9, false },
        { "root ::= " ANY "{0,3}", "", 3, false },
        { "root ::= " ANY "{0,3} rest\nrest ::= \"\" | \"abc\" rest", "", 3, false },
        { "root ::= " ANY "{300,400} \"\\\"\"", "", 253, false },
        { "root ::= [a-z]* \"\\\"\"", "", 0, false },
        { "root ::= \"\\\"\" " ANY "* \"\\\"\"", "", 0, true },
        { "root ::= (" ANY "{0,4} | " ANY "{2,6}) \"\\\"\"", "a", 5, true },
        { "root ::= (" ANY "{0,4} \"!\" | " ANY "{2,6} \"\\\"\")", "a", 5, false },
        { "root ::= \"\\n\" | (" ANY ANY ")*", "", TRIE_CHARS_ENDLESS, false },
        { "root ::= \"\\n\" | (" ANY ANY ")* \"\\\"\"", "\xe4", TRIE_CHARS_ENDLESS, false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = fixture_gbnf(cases[i].grammar, trie);
        GrammarState at = grammar_matcher_start(matcher);
        PlainPlace place = PLAIN_BOUNDARY;
        bool is_exact;
        uint32_t n;

        for (const char *byte = cases[i].before; *byte; byte++)
            place = plain_step(place, (uint8_t)*byte);
        assert_int_equal(grammar_matcher_advance_bytes(matcher, at, cases[i].before, strlen(cases[i].before), &at), 0);
        for (int again = 0; again < 2; again++) {
            n = matcher_count_plain(matcher, at, place, &is_exact);
            if (n != cases[i].n || is_exact != cases[i].is_exact)
                fail_msg("case %zu, %s behind \"%s\": %u%s", i, cases[i].grammar, cases[i].before, n,
                         is_exact ? ", exact" : "");
        }
        assert_int_equal(matcher->regex.failure, 0);
    }
}

/* Returns a matcher of '<', an intersection (two: NULL or a part of it), '"'; or of '>'. */
static GrammarMatcher *make_logic(const char *one, const char *two, const char *refused, TokenTrie *trie) {
    GrammarBuilder *builder = NULL;
    GrammarPart parts[3], both;

    assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
    assert_int_equal(grammar_part_regex(builder, one, strlen(one), 0, &parts[0], NULL), 0);
    if (two)
        assert_int_equal(grammar_part_regex(builder, two, strlen(two), 0, &parts[1], NULL), 0);
    assert_int_equal(grammar_part_regex(builder, refused, strlen(refused), 0, &parts[2], NULL), 0);
    both = two ? grammar_part_and(builder, parts[0], parts[1]) : parts[0];
    parts[1] = grammar_part_and(builder, both, grammar_part_not(builder, parts[2]));
    parts[0] = grammar_part_bytes(builder, "<", 1);
    parts[2] = grammar_part_bytes(builder, "\"", 1);
    parts[1] = grammar_part_sequence(builder, parts, 3);
    parts[0] = grammar_part_bytes(builder, ">", 1);
    return fixture_finish(builder, grammar_part_choice(builder, parts, 2), trie);
}

/* Counts characters that may come, whatever they are, by trying texts of five letters. */
static uint32_t try_plain(GrammarMatcher *matcher, GrammarState state, uint32_t n_max) {
    uint32_t least = n_max;

    for (const char *letter = "names"; *letter && least; letter++) {
        GrammarState next;
        uint32_t n = 0;

        if (!grammar_matcher_advance_bytes(matcher, state, letter, 1, &next))
            n = 1 + try_plain(matcher, next, least - 1);
        least = MIN(least, n);
    }
    return least;
}

/* Intersections and complements: a count is never too high, and these say what is wanted of them. */
static void test_plain_counts_of_logic(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(NULL, 0);
    static const struct {
        const char *one, *two, *refused;
        uint32_t n, n_behind; /* at least: from the start, and behind "n" */
    } cases[] = {
        { ".*", ".*", "(name|names|n)", TRIE_CHARS_ENDLESS, TRIE_CHARS_ENDLESS },
        { ".*", ".*", "n.*", 0, 0 },
        { ".{0,5}", NULL, "(name|n)", 5, 0 }, /* behind "n", "ame" is refused, and four letters may come */
        { ".{0,5}", NULL, "(names|n)", 0, 0 },
        { ".{0,4}", NULL, "a", 4, 3 },
        { ".*", ".*names.*", "(name|n)", TRIE_CHARS_ENDLESS, 0 },
        { ".*a.*", ".*s", "(name|n)", TRIE_CHARS_ENDLESS, TRIE_CHARS_ENDLESS },
        { ".*a", ".*s", "(name|n)", 0, 0 },
        { ".{0,5}a", ".{0,5}s", "n", 0, 0 },
        { ".{0,3}a.*", ".*s", "n", 0, 0 },
        { ".*s", ".*", ".*names", 0, 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher =
            make_logic(cases[i].one, cases[i].two, cases[i].refused, trie);

        for (size_t n_before = 1; n_before <= 2; n_before++) {
            const uint32_t wanted = n_before > 1 ? cases[i].n_behind : cases[i].n;
            GrammarState at = grammar_matcher_start(matcher);
            bool is_exact;
            uint32_t n;

            if (grammar_matcher_advance_bytes(matcher, at, "<n", n_before, &at))
                continue;
            n = matcher_count_plain(matcher, at, PLAIN_BOUNDARY, &is_exact);
            if (n < wanted || MIN(n, 6u) > try_plain(matcher, at, 6))
                fail_msg("case %zu, %zu: %u, by trying %u", i, n_before, n, try_plain(matcher, at, 6));
        }
    }
}

/* --- masks -------------------------------------------------------------------------------------------------------- */

/* Every text of up to four of these, and long texts of one of them. */
static const char *const letters[] = { "a", "b", "z", "1", " ", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80" };
static const char *const others[] = { "\"",  "\\",    "\n",   "\xe2\x80\xa8", "\xe2",
                                      "a\"", "ab\",", "z\\n", "\xe4\xb8",     "\"b" };

enum {
    LETTERS = 8,
    WORDS = LETTERS + LETTERS * LETTERS + LETTERS * LETTERS * LETTERS + LETTERS * LETTERS * LETTERS * LETTERS,
    LONGEST = 40,
    TOKENS = WORDS + 4 * LONGEST + (int)ARRAY_LEN(others) + 2,
};

/* Appends the text of a letter to the token under construction. */
static void add_letter(TokenBytes *token, char *text, const char *letter) {
    const size_t n = strlen(letter);

    assert_true(token->n_bytes + n <= 4 * LONGEST);
    memcpy(text + token->n_bytes, letter, n);
    *token = (TokenBytes){ (const uint8_t *)text, token->n_bytes + (uint32_t)n };
}

static TokenTrie *make_trie(void) {
    TokenBytes *tokens = calloc(TOKENS, sizeof(*tokens));
    char(*texts)[4 * LONGEST] = calloc(TOKENS, sizeof(*texts));
    TokenTrie *trie = NULL;
    uint32_t n = 0;

    assert_true(tokens && texts);
    for (uint32_t length = 1, count = LETTERS; length <= 4; length++, count *= LETTERS)
        for (uint32_t number = 0; number < count; number++, n++)
            for (uint32_t i = 0, left = number; i < length; i++, left /= LETTERS)
                add_letter(&tokens[n], texts[n], letters[left % LETTERS]);
    for (uint32_t letter = 0; letter < 4; letter++)
        for (uint32_t length = 1; length <= LONGEST; length++, n++)
            for (uint32_t i = 0; i < length; i++)
                add_letter(&tokens[n], texts[n], letters[2 * letter]);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        tokens[n++] = (TokenBytes){ (const uint8_t *)others[i], (uint32_t)strlen(others[i]) };
    tokens[n++] = (TokenBytes){ (const uint8_t *)"ab", 2 };
    assert_true(n <= TOKENS);
    assert_int_equal(token_trie_new(&trie, tokens, n), 0);
    free(tokens);
    free(texts);
    return trie;
}

static bool is_set(const uint64_t *mask, uint32_t token) {
    return mask[token / 64] >> (token % 64) & 1;
}

/* Compares masks along a text with what single tokens say. The masks' matcher has met nothing else before. */
static void check_masks(GrammarMatcher *judge, const TokenTrie *trie, const char *grammar, const char *text) {
    _cleanup_(freep) uint64_t *mask = calloc(TOKEN_MASK_WORDS(token_trie_n_tokens(trie)), sizeof(*mask));
    _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = fixture_gbnf(grammar, (TokenTrie *)trie);
    GrammarState at = grammar_matcher_start(matcher), judged = grammar_matcher_start(judge);

    assert_non_null(mask);
    for (size_t i = 0;; i++) {
        assert_int_equal(grammar_matcher_mask(matcher, at, mask), 0);
        for (uint32_t token = 0; token < token_trie_n_tokens(trie); token++) {
            GrammarState next;
            const int r = grammar_matcher_advance(judge, judged, token, &next);

            assert_true(!r || r == GRAMMAR_E_REFUSED);
            if (is_set(mask, token) != !r)
                fail_msg("%s behind \"%.*s\": token %u is %s", grammar, (int)i, text, token, r ? "allowed" : "refused");
        }
        if (!text[i])
            break;
        assert_int_equal(grammar_matcher_advance_bytes(matcher, at, text + i, 1, &at), 0);
        assert_int_equal(grammar_matcher_advance_bytes(judge, judged, text + i, 1, &judged), 0);
    }
}

static void test_plain_masks(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = make_trie();
    static const struct {
        const char *grammar, *text;
    } cases[] = {
        { "root ::= \"\\\"\" " ANY "* \"\\\"\"", "\"ab" },
        { "root ::= \"\\\"\" " ANY "{0,3} \"\\\"\"", "\"ab" },
        { "root ::= \"\\\"\" " ANY "{0,25} \"\\\"\"", "\"a" },
        { "root ::= " ANY "{2,9}", "ab" },
        { "root ::= [a-z]+", "a" },
        { "root ::= [a-z]{1,3} \"\\\"\" | " ANY "{0,2} \"b\"", "a" },
        { "root ::= [^a] " ANY "*", "b" },
        { "root ::= [^a\\\"\\\\\\n] " ANY "{0,20} | \"\\n\"", "b" },
        { "root ::= \"a\" " ANY "* | \"z\"", "a" },
        { "root ::= (" ANY ANY ")* \"\\\"\"", "ab\xe4" },
        { "root ::= [^\\u4e2d]* \"\\\"\"", "a" },
        { "root ::= [^\\xa0-\\xff]* \"\\\"\"", "a" },
        { "root ::= ([^a1] | \"a\" [^b])* \"!\"", "ba" },
        { "root ::= (\"ab\" | \"zz\" | \"\xc3\xa9\" | \"1\")* [^a]", "ab1" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(grammar_matcher_freep) GrammarMatcher *judge = fixture_gbnf(cases[i].grammar, trie);

        check_masks(judge, trie, cases[i].grammar, cases[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_places),
        cmocka_unit_test(test_plain_counts),
        cmocka_unit_test(test_plain_counts_of_logic),
        cmocka_unit_test(test_plain_masks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
