// SPDX-License-Identifier: Apache-2.0
/* Answers in parts: marks that are text or tokens, white space beside them, calls, and what only resembles a mark. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/text/chat/parts_check.h"

enum {
    MARKS_NONE = 0,
    MARKS_ALL = PARTS_VOCAB - PARTS_OPEN
};

static PartsVocab plain, marked; /* marks are text; marks are tokens */

static int make_vocabs(void **state) {
    parts_vocab_init(&plain, MARKS_NONE, NULL);
    parts_vocab_init(&marked, MARKS_ALL, NULL);
    return 0;
}

static int free_vocabs(void **state) {
    parts_vocab_deinit(&plain);
    parts_vocab_deinit(&marked);
    return 0;
}

static AnswerFormat format_of(const PartsVocab *vocab, bool is_thinking, bool has_calls) {
    const bool are_tokens = vocab == &marked;

    return (AnswerFormat){ .thinking = { "<think>", "</think>", are_tokens ? PARTS_OPEN : TOKEN_NONE,
                                         are_tokens ? PARTS_CLOSE : TOKEN_NONE },
                           .is_thinking = is_thinking,
                           .calls = has_calls ? &toy_format : NULL };
}

static void expect(const PartsVocab *vocab, bool is_thinking, const char *script, const char *wanted) {
    const AnswerFormat format = format_of(vocab, is_thinking, true);
    PartsLine line;

    parts_check(vocab->tokenizer, &format, script, strlen(script), &line);
    assert_string_equal(line.text.data ? line.text.data : "", wanted);
    str_buf_deinit(&line.text);
}

static void test_answer_parts_thinking_in_text(void **state) {
    expect(&plain, false, "<think>\nHm.\n</think>\n\nYes.", "[r]Hm.[t]Yes.");
    expect(&plain, false, "\n<think>a</think>b", "[r]a[t]b");
    expect(&plain, true, "Hm.\n\n</think>\n\nYes.", "[r]Hm.[t]Yes.");
    expect(&plain, true, "\n\n</think>\nYes.", "[t]Yes.");
    expect(&plain, true, "a </thin </think>b", "[r]a </thin[t]b");
    expect(&plain, true, "a\n </thinking>", "[r]a\n </thinking>");
    expect(&plain, true, "never ends ", "[r]never ends ");
    expect(&plain, true, "cut </thi", "[r]cut </thi");
    expect(&plain, false, "<think>a</think>\n<think>b</think> c", "[r]ab[t]c"); /* interleaved */
}

/* Text is thinking only where nothing but white space came before, and white space of an answer stays. */
static void test_answer_parts_text_that_resembles(void **state) {
    expect(&plain, false, "  Yes.\n\n", "[t]  Yes.\n\n");
    expect(&plain, false, "I <think> so</think>.", "[t]I <think> so</think>.");
    expect(&plain, false, "<thinking>", "[t]<thinking>");
    expect(&plain, false, "</think>x", "[t]</think>x");
    expect(&plain, false, " <thin", "[t] <thin");
    expect(&plain, false, "\n\n", "[t]\n\n");
    expect(&plain, false, "", "");
    expect(&marked, false, "<think>spelled</think>x", "[t]<think>spelled</think>x");
    expect(&marked, true, "a</think>b" CLOSE "c", "[r]a</think>b[t]c");
}

static void test_answer_parts_thinking_in_tokens(void **state) {
    expect(&marked, false, OPEN "\nHm.\n" CLOSE "\n\nYes.", "[r]Hm.[t]Yes.");
    expect(&marked, false, "\n" OPEN "a" CLOSE "b", "[r]a[t]b");
    expect(&marked, true, OPEN "\na" CLOSE "b", "[r]a[t]b"); /* opened by the prompt, and once more */
    expect(&marked, true, "a" OPEN "b" CLOSE "c", "[r]a<think>b[t]c");
    expect(&marked, true, "a  " CONTROL " b" CLOSE, "[r]a   b");
    expect(&marked, false, "I " OPEN " so" CLOSE ".", "[t]I <think> so</think>.");
    expect(&marked, false, CLOSE "x", "[t]</think>x");
    expect(&marked, true, " " CLOSE CLOSE, "[t]</think>");
}

static void test_answer_parts_calls(void **state) {
    expect(&plain, false, "<call>sum:{1,2}</call>", "[c]0 sum({1,2}");
    expect(&plain, false, "Look:\n<call>a:1</call>\n<call>b:2</call>\n", "[t]Look:\n[c]0 a(1[c]1 b(2");
    expect(&plain, false, "\n<call>a:1</call> done <call>b:2</call>", "[c]0 a(1[t]done [c]1 b(2");
    expect(&plain, false, "<think>x</think>\n\n<call>a:1</call>", "[r]x[c]0 a(1");
    expect(&plain, true, "<call>a:1</call></think>t", "[r]<call>a:1</call>[t]t");
    expect(&plain, false, "<call>a:</cal</call>", "[c]0 a(</cal");
    expect(&plain, false, "<call>a:1", "[c]0 a(1");
    expect(&marked, false, CALL "a:1" CALL_END "\n" CALL "b:2" CALL_END, "[c]0 a(1[c]1 b(2");
    expect(&marked, false, "t " CALL "a:1" CALL_END, "[t]t [c]0 a(1");
    expect(&marked, false, "<call>a:1</call>", "[t]<call>a:1</call>");
    expect(&plain, false, "\n@a:1</call> t", "[c]0 a(1[t]t");
    expect(&plain, false, "<think>x</think>\n@a:1</call>", "[r]x[c]0 a(1");
    expect(&plain, false, "x @a:1</call>", "[t]x @a:1</call>"); /* counts at the front alone */
    expect(&plain, false, "\n@ b", "[t]\n@ b");
}

/* What is no call after all stays text, and a start mark behind it counts. */
static void test_answer_parts_calls_that_are_text(void **state) {
    expect(&plain, false, " <call> is a mark", "[t] <call> is a mark");
    expect(&plain, false, "<call>name", "[t]<call>name");
    expect(&plain, false, "<call><call>a:1</call>", "[t]<call>[c]0 a(1");
    expect(&plain, false, "x <call>ab<call>a:1</call>", "[t]x <call>ab[c]0 a(1");
    expect(&plain, false, "x <ca", "[t]x <ca");
    expect(&marked, false, CALL " no", "[t]<call> no");
    expect(&marked, false, CALL CALL "a:1" CALL_END, "[t]<call>[c]0 a(1");
    expect(&marked, false, "\n" CALL "ab" CALL_END "x", "[t]\n<call>ab</call>x");
    expect(&marked, false, CALL "ab", "[t]<call>ab");
}

/* White space is not held back without end, and cutting it changes nothing. */
static void test_answer_parts_long_space(void **state) {
    const AnswerFormat thinking = format_of(&plain, true, false), front = format_of(&plain, false, false);
    char script[700];
    PartsLine line;

    memset(script, ' ', sizeof(script));
    script[0] = 'a';
    memcpy(script + 600, "</think>b", 9);
    parts_check(plain.tokenizer, &thinking, script, 609, &line);
    assert_int_equal(line.text.len_bytes, 3 + 600 - 256 + 3 + 1);
    str_buf_deinit(&line.text);
    script[0] = ' ';
    memcpy(script + 600, "<think>b", 8);
    parts_check(plain.tokenizer, &front, script, 608, &line);
    assert_int_equal(line.text.len_bytes, 3 + 608);
    str_buf_deinit(&line.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer_parts_thinking_in_text),
        cmocka_unit_test(test_answer_parts_text_that_resembles),
        cmocka_unit_test(test_answer_parts_thinking_in_tokens),
        cmocka_unit_test(test_answer_parts_calls),
        cmocka_unit_test(test_answer_parts_calls_that_are_text),
        cmocka_unit_test(test_answer_parts_long_space),
    };

    return cmocka_run_group_tests(tests, make_vocabs, free_vocabs);
}
