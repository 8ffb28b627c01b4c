// SPDX-License-Identifier: Apache-2.0
/* Regular expressions: syntax, anchors, JSON strings, what is refused. */
#undef NDEBUG
#include "test/unit/text/grammar/grammar_fixture.h"

static void test_pattern_syntax(void **state) {
    fixture_check_regex("a|bc*|(?:d+e?){2}", 0, TEXTS("a", "b", "bccc", "ddede", "dd"), TEXTS("", "ab", "d", "bb"));
    fixture_check_regex("[a-c\\d_-]+\\.\\w\\s\\S", 0, TEXTS("a1_-.x y", "c.Z\xc2\xa0\xc3\xa9"),
                        TEXTS("d.x y", "a.- y", "a.x  "));
    fixture_check_regex("x{2,3}y{2}z{1,}?w{,2}", 0, TEXTS("xxyyzw{,2}", "xxxyyzzzw{,2}"),
                        TEXTS("xyyzw{,2}", "xxyyw{,2}"));
    fixture_check_regex("\\u00e9\\x41\\u{1F600}\\uD83D\\uDE00\\n\\cA[\\b\\]\\-]", 0,
                        TEXTS("\xc3\xa9"
                              "A\xf0\x9f\x98\x80\xf0\x9f\x98\x80\n\x01\b",
                              "\xc3\xa9"
                              "A\xf0\x9f\x98\x80\xf0\x9f\x98\x80\n\x01-"),
                        TEXTS("\xc3\xa9"
                              "A"));
    fixture_check_regex("(?<name>a)(?P<other>b)(?i:c)d", 0, TEXTS("abcd", "abCd"), TEXTS("Abcd", "abcD"));
    fixture_check_regex("(?i)ab[x-z][^k]", 0, TEXTS("aBXm", "ABzL"), TEXTS("abxk", "abxK"));
    fixture_check_regex("\\p{Lu}\\p{L}+\\P{L}\\p{Nd}", 0, TEXTS("\xc3\x84rger 1", "Ab-2"),
                        TEXTS("\xc3\xa4rger 1", "Abc1"));
    fixture_check_regex(".", 0, TEXTS("a", "\xe2\x82\xac", "\xf0\x9f\x98\x80"),
                        TEXTS("\n", "\r", "\xe2\x80\xa8", "\xed\xa0\x80", ""));
    fixture_check_regex(".", GRAMMAR_REGEX_DOT_ALL, TEXTS("a", "\n"), TEXTS("", "ab"));
    fixture_check_regex("a{0}b[^]", 0, TEXTS("bx", "b\n"), TEXTS("abx", "b"));
    fixture_check_regex("", 0, TEXTS(""), TEXTS("a"));
    fixture_check_regex("a||b", 0, TEXTS("", "a", "b"), TEXTS("ab"));
    fixture_check_regex("\\/\\@\\-\\#", 0, TEXTS("/@-#"), NO_TEXTS);
}

static void test_pattern_search(void **state) {
    const unsigned int flags = GRAMMAR_REGEX_SEARCH;

    fixture_check_regex("b+", flags, TEXTS("b", "abc", "bbb", "xx\nb\n"), TEXTS("", "ac"));
    fixture_check_regex("^b", flags, TEXTS("b", "bc"), TEXTS("ab", ""));
    fixture_check_regex("b$", flags, TEXTS("b", "ab"), TEXTS("ba", "b\n"));
    fixture_check_regex("^b|c$", flags, TEXTS("bx", "xc", "c"), TEXTS("xbx", "cx"));
    fixture_check_regex("^(b|c)$", flags, TEXTS("b", "c"), TEXTS("xb", "cx", ""));
    fixture_check_regex("(^|-)b($|-)", flags, TEXTS("b", "a-b", "b-a", "x-b-y"), TEXTS("ab", "xb-y", "ba"));
    fixture_check_regex("^$", flags, TEXTS(""), TEXTS("a"));
    fixture_check_regex("^", flags, TEXTS("", "a"), NO_TEXTS);
    fixture_check_regex("$", flags, TEXTS("", "a"), NO_TEXTS);
    fixture_check_regex("", flags, TEXTS("", "abc"), TEXTS("\xff"));
    fixture_check_regex("a|", flags, TEXTS("", "abc"), NO_TEXTS);
    fixture_check_regex("^a.*z$", flags, TEXTS("az", "abcz"), TEXTS("a", "abc", "az\n", "zaz"));
    /* without the flag, anchors change nothing */
    fixture_check_regex("^(a|b)$", 0, TEXTS("a", "b"), TEXTS("ab", ""));
}

static void test_pattern_in_json(void **state) {
    const unsigned int flags = GRAMMAR_REGEX_JSON;

    fixture_check_regex(".", flags, TEXTS("a", "\\\"", "\\\\", "\\t", "\\u0001", "\\u001F", "\xc3\xa9", "\x7f", "'"),
                        TEXTS("\"", "\\", "\t", "\\n", "\\u0041", "\\x"));
    fixture_check_regex("^\\w+\\s\"[^a]$", flags | GRAMMAR_REGEX_SEARCH, TEXTS("ab \\\"b", "ab\\n\\\"\\\\"),
                        TEXTS("ab\n\\\"b", "ab \"b", "ab \\\"a"));
}

static void check_error(const char *pattern, int code, const char *part) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    GrammarPart root;
    ErrText err = { .text = "" };
    int r;

    assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
    r = grammar_part_regex(builder, pattern, strlen(pattern), GRAMMAR_REGEX_SEARCH, &root, &err);
    if (r != code || !strstr(err.text, part))
        fail_msg("%s: %d, %s", pattern, r, err.text);
}

static void test_pattern_errors(void **state) {
    check_error("(a", GRAMMAR_E_SYNTAX, "parenthesis");
    check_error("a)", GRAMMAR_E_SYNTAX, "parenthesis");
    check_error("[a", GRAMMAR_E_SYNTAX, "bracket");
    check_error("[b-a]", GRAMMAR_E_SYNTAX, "order");
    check_error("*a", GRAMMAR_E_SYNTAX, "repeat");
    check_error("a**", GRAMMAR_E_SYNTAX, "repeat");
    check_error("a{3,2}", GRAMMAR_E_SYNTAX, "order");
    check_error("a\\", GRAMMAR_E_SYNTAX, "backslash");
    check_error("\\u00", GRAMMAR_E_SYNTAX, "code point");
    check_error("\xff", GRAMMAR_E_SYNTAX, "UTF-8");
    check_error("(a)\\1", GRAMMAR_E_UNSUPPORTED, "back reference");
    check_error("(?=a)", GRAMMAR_E_UNSUPPORTED, "look-around");
    check_error("(?<!a)", GRAMMAR_E_UNSUPPORTED, "look-around");
    check_error("a\\b", GRAMMAR_E_UNSUPPORTED, "word boundary");
    check_error("a^b", GRAMMAR_E_UNSUPPORTED, "anchor");
    check_error("a$b", GRAMMAR_E_UNSUPPORTED, "anchor");
    check_error("(^a)*", GRAMMAR_E_UNSUPPORTED, "anchor");
    check_error("a++", GRAMMAR_E_UNSUPPORTED, "possessive");
    check_error("\\y", GRAMMAR_E_UNSUPPORTED, "escape");
    check_error("\\p{Greek}", GRAMMAR_E_UNSUPPORTED, "category");
    check_error("a{9999999}", GRAMMAR_E_TOO_COMPLEX, "count");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pattern_syntax),
        cmocka_unit_test(test_pattern_search),
        cmocka_unit_test(test_pattern_in_json),
        cmocka_unit_test(test_pattern_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
