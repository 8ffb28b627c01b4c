// SPDX-License-Identifier: Apache-2.0
/* GBNF: its syntax, its errors, and grammars whose texts are known. */
#undef NDEBUG
#include "test/unit/text/grammar/grammar_fixture.h"

static void test_gbnf_literals_and_classes(void **state) {
    fixture_check_gbnf("root ::= \"a\\n\\x41\\u00e9\\\"\" [^x-z\\]] [a-c-]",
                       TEXTS("a\nA\xc3\xa9\"wa", "a\nA\xc3\xa9\"\xf0\x9f\x98\x80-"),
                       TEXTS("a\nA\xc3\xa9\"xa", "a\nA\xc3\xa9\"]a", "a\nA\xc3\xa9\"wd", "", "a"));
    fixture_check_gbnf("root ::= . \".\"", TEXTS("x.", "\xe2\x82\xac.", "\n."),
                       TEXTS("..x", "\xe2\x82.", ".", "\xed\xa0\x80."));
}

static void test_gbnf_repeats(void **state) {
    fixture_check_gbnf("root ::= \"a\"{2,3} \"b\"? \"c\"* (\"d\" | \"e\" \"f\")+ \"g\"{2} \"h\"{1,}",
                       TEXTS("aadggh", "aaabccefdefgghh"), TEXTS("adggh", "aaaadggh", "aaggh", "aadgh", "aadgg"));
    fixture_check_gbnf("root ::= x{3}\nx ::= \"<\" x* \">\"", TEXTS("<><><>", "<<>><<><>><>"),
                       TEXTS("<><>", "<><><><>", "<><><"));
    fixture_check_gbnf("root ::= x{1,3} \"!\"\nx ::= \"<\" x* \">\"", TEXTS("<>!", "<><<>><>!"),
                       TEXTS("!", "<><><><>!"));
}

static void test_gbnf_layout(void **state) {
    fixture_check_gbnf(
        "# a comment\n\nroot ::= # behind\n  (\n \"a\" # in\n | \"b\"\n ) |\n  rest-1 # end\nrest-1 ::= \"c\"\r\n",
        TEXTS("a", "b", "c"), TEXTS("", "ab"));
    fixture_check_gbnf("root ::= | \"a\"", TEXTS("", "a"), TEXTS("aa"));
}

static void test_gbnf_recursion(void **state) {
    const char *const nested[] = { "root ::= \"(\" root \")\" | \"\"", "root ::= (\"(\" root \")\")?",
                                   "root ::= a\na ::= \"(\" b \")\" | \"\"\nb ::= a" };

    for (size_t i = 0; i < ARRAY_LEN(nested); i++)
        fixture_check_gbnf(nested[i], TEXTS("", "()", "(((())))"), TEXTS("(", "(()", "())", "()()"));
    /* left, right, both, hidden behind what may be empty */
    fixture_check_gbnf("root ::= root \"a\" | \"b\"", TEXTS("b", "baaaa"), TEXTS("", "a", "bab"));
    fixture_check_gbnf("root ::= \"a\" root | \"b\"", TEXTS("b", "aaaab"), TEXTS("", "a", "aba"));
    fixture_check_gbnf("root ::= root root | \"a\"", TEXTS("a", "aa", "aaaaaaaaa"), TEXTS("", "ab"));
    fixture_check_gbnf("root ::= x root \"a\" | \"b\"\nx ::= \"\" | \"x\"", TEXTS("b", "baa", "xxbaaa", "xbaaa"),
                       TEXTS("xxba", "x"));
    fixture_check_gbnf("root ::= e\ne ::= e \"+\" t | t\nt ::= t \"*\" f | f\nf ::= \"(\" e \")\" | [0-9]+",
                       TEXTS("1", "12+3*4", "(1+2)*(3+(4))"), TEXTS("", "1+", "(1", "1)", "1**2"));
    /* texts from the middle on: no lexer could tell where a part ends */
    fixture_check_gbnf("root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\"",
                       TEXTS("a", "aba", "abbbabbba", "abababa"), TEXTS("ab", "abab", ""));
    fixture_check_gbnf("root ::= x y\nx ::= \"a\"+ | \"(\" x \")\"\ny ::= \"a\"* \"b\" | \"[\" y \"]\"",
                       TEXTS("aab", "ab", "(a)aab", "aa[[b]]"), TEXTS("b", "(a)", "aa"));
}

static void test_gbnf_long_lists_need_few_states(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = fixture_trie(NULL, 0);
    const char *const lists[] = {
        "root ::= \"[\" item (\",\" item)* \"]\"\nitem ::= [0-9]+ | root",
        "root ::= \"[\" items\nitems ::= item \",\" items | item \"]\"\nitem ::= [0-9]+ | root",
        "root ::= \"[\" items \"]\"\nitems ::= items \",\" item | item\nitem ::= [0-9]+ | root"
    };

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        _cleanup_(grammar_matcher_freep) GrammarMatcher *matcher = fixture_gbnf(lists[i], trie);
        GrammarState at = grammar_matcher_start(matcher);
        size_t before = 0;

        assert_int_equal(grammar_matcher_advance_bytes(matcher, at, "[[1,2],", 7, &at), 0);
        for (int k = 0; k < 20000; k++) {
            assert_int_equal(grammar_matcher_advance_bytes(matcher, at, "345,[6,78],", 11, &at), 0);
            if (k == 10)
                before = grammar_matcher_memory_bytes(matcher);
        }
        assert_int_equal(grammar_matcher_memory_bytes(matcher), before);
        assert_int_equal(grammar_matcher_advance_bytes(matcher, at, "9]", 2, &at), 0);
        assert_true(grammar_matcher_is_end_allowed(matcher, at));
    }
}

static void check_error(const char *text, int code, const char *part) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    GrammarPart root = 0;
    ErrText err = { .text = "" };
    int r;

    assert_int_equal(grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT), 0);
    r = gbnf_parse(builder, text, strlen(text), &root, &err);
    if (!r)
        r = grammar_builder_finish(builder, root, &grammar, &err);
    if (r != code || !strstr(err.text, part))
        fail_msg("\"%s\": %d, %s", text, r, err.text);
}

static void test_gbnf_errors(void **state) {
    check_error("", GRAMMAR_E_SYNTAX, "no rule \"root\"");
    check_error("root := \"a\"", GRAMMAR_E_SYNTAX, "::= is expected");
    check_error("root ::= \"a", GRAMMAR_E_SYNTAX, "closing quote");
    check_error("a ::= \"a\"\nroot ::= [a", GRAMMAR_E_SYNTAX, "line 2");
    check_error("root ::= (\"a\"", GRAMMAR_E_SYNTAX, "parenthesis");
    check_error("root ::= \"a\" )", GRAMMAR_E_SYNTAX, "end of the line");
    check_error("root ::= \"\\q\"", GRAMMAR_E_SYNTAX, "escape");
    check_error("root ::= \"\\u00\"", GRAMMAR_E_SYNTAX, "hexadecimal");
    check_error("root ::= [z-a]", GRAMMAR_E_SYNTAX, "order");
    check_error("root ::= \"a\"{3,2}", GRAMMAR_E_SYNTAX, "order");
    check_error("root ::= \"a\"{,2}", GRAMMAR_E_SYNTAX, "count");
    check_error("root ::= \"a\"{99999999999}", GRAMMAR_E_TOO_COMPLEX, "count");
    check_error("root ::= none", GRAMMAR_E_SYNTAX, "\"none\"");
    check_error("root ::= <think> \"a\"", GRAMMAR_E_UNSUPPORTED, "tokens");
    check_error("root ::= \"a\" root", GRAMMAR_E_NOTHING, "no text");
    check_error("root ::= \"\xff\"", GRAMMAR_E_SYNTAX, "UTF-8");
    check_error("root ::= x{1000000}\nx ::= \"(\" x{1000000} \")\" | \"a\"", GRAMMAR_E_TOO_COMPLEX, "complex");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gbnf_literals_and_classes),
        cmocka_unit_test(test_gbnf_repeats),
        cmocka_unit_test(test_gbnf_layout),
        cmocka_unit_test(test_gbnf_recursion),
        cmocka_unit_test(test_gbnf_long_lists_need_few_states),
        cmocka_unit_test(test_gbnf_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
