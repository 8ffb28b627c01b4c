// SPDX-License-Identifier: Apache-2.0
/* Plans of tool calls: what a model may write in each mode and format, with marks that are tokens and marks that are
 * text; schemas that cannot be enforced. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/constraint/call_plan.h"
#include "engine/constraint/constraint_run.h"
#include "test/unit/text/chat/parts_check.h"
#include "text/chat/call_formats.h"

#define TOOLS                                                                                                          \
    "[{\"name\": \"sum\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"integer\"}}, "                         \
    "\"required\": [\"a\"]}}, {\"name\": \"now\"}]"
#define SUM "{\"name\": \"sum\", \"arguments\": {\"a\": 12}}"
#define NOW "{\"name\": \"now\", \"arguments\": {}}"

/* Formats of the vocabulary's own marks, in which a call stands between two marks, and one with an infix. */
static const CallShape marked = { .start = "<call>",
                                  .pad = "\n",
                                  .end = "</call>",
                                  .joint = "\n",
                                  .name_key = "name",
                                  .arguments_key = "arguments" },
                       fronted = { .format = { .starts = { { .text = "{", .is_at_front = true }, { .text = "<call>" } },
                                               .n_starts = 2 },
                                   .pad = "",
                                   .joint = "; ",
                                   .name_key = "name",
                                   .arguments_key = "arguments" },
                       infixed = { .start = "<call>", .pad = "", .joint = "", .infix = "</call>" };

static PartsVocab plain, tokens;
static ConstraintVocabulary *plain_vocabulary, *token_vocabulary;

static int group_setup(void **state) {
    parts_vocab_init(&plain, 0, NULL);
    parts_vocab_init(&tokens, PARTS_VOCAB - PARTS_OPEN, NULL);
    assert_int_equal(constraint_vocabulary_new(&plain_vocabulary, plain.tokenizer, tokenizer_n_tokens(plain.tokenizer)),
                     0);
    assert_int_equal(
        constraint_vocabulary_new(&token_vocabulary, tokens.tokenizer, tokenizer_n_tokens(tokens.tokenizer)), 0);
    return 0;
}

static int group_teardown(void **state) {
    constraint_vocabulary_unref(plain_vocabulary);
    constraint_vocabulary_unref(token_vocabulary);
    parts_vocab_deinit(&plain);
    parts_vocab_deinit(&tokens);
    return 0;
}

static ConstraintRun *run_of(const CallShape *shape, CallChoice choice, bool are_tokens) {
    _cleanup_(constraint_plan_deinit) ConstraintPlan plan = { 0 };
    _cleanup_(constraint_unrefp) Constraint *constraint = NULL;
    _cleanup_(call_tools_freep) CallTools *tools = NULL;
    ConstraintRun *run = NULL;
    ErrText err = { 0 };

    assert_int_equal(call_tools_new(&tools, TOOLS, sizeof(TOOLS) - 1, &choice, &err), 0);
    if (call_plan_add(&plan, shape, tools, (are_tokens ? &tokens : &plain)->tokenizer, &GRAMMAR_LIMITS_DEFAULT,
                      &plan.start, &err) ||
        constraint_new(&constraint, &plan, are_tokens ? token_vocabulary : plain_vocabulary, &err))
        fail_msg("%s", err.text);
    assert_int_equal(constraint_run_new(&run, constraint), 0);
    return run;
}

/* Takes a script, whose bytes are tokens or stand for marks. Whole: the answer may end behind it. Else the script's
 * last byte is the first that is refused. */
static void expect(const CallShape *shape, CallChoice choice, bool are_tokens, const char *script, bool is_whole) {
    _cleanup_(constraint_run_freep) ConstraintRun *run = run_of(shape, choice, are_tokens);
    ConstraintState at = constraint_run_start(run);
    const size_t n = strlen(script);

    for (size_t i = 0; i < n; i++) {
        const uint32_t token = are_tokens && script[i] <= PARTS_LAST_BYTE ? PARTS_OPEN + (uint32_t)script[i] - 1
                                                                          : (uint32_t)(uint8_t)script[i];
        int r;

        constraint_run_refuel(run, 1);
        r = constraint_run_advance(run, at, token, &at);
        if (r != (is_whole || i + 1 < n ? 0 : CONSTRAINT_E_REFUSED))
            fail_msg("%s: byte %zu: %d", script, i, r);
    }
    if (is_whole)
        assert_true(constraint_run_is_end_allowed(run, at));
}

static const CallChoice automatic = { .mode = CALL_MODE_AUTO }, required = { .mode = CALL_MODE_REQUIRED },
                        named = { .mode = CALL_MODE_NAMED, .name = "now" },
                        single = { .mode = CALL_MODE_REQUIRED, .is_single = true },
                        at_most_one = { .mode = CALL_MODE_AUTO, .is_single = true };

static void test_call_plan_marks_of_tokens(void **state) {
    expect(&marked, automatic, true, "Any text, <call> too.", true);
    expect(&marked, automatic, true, "Look: " CALL "\n" SUM "\n" CALL_END "\n" CALL "\n" NOW "\n" CALL_END, true);
    expect(&marked, automatic, true, CALL "\n{\"name\": \"o", false);
    expect(&marked, automatic, true, CALL "\n{\"name\": \"sum\", \"arguments\": {\"a\": \"", false);
    expect(&marked, automatic, true, CALL "\n{\"name\": \"now\", \"arguments\": {\"",
           false); /* no argument is listed */
    expect(&marked, automatic, true, CALL "\n" NOW "\nx", false);
    expect(&marked, required, true, "T", false);
    expect(&marked, required, true, CALL "\n" NOW "\n" CALL_END, true);
    expect(&marked, required, true, CALL "\n" NOW "\n" CALL_END CALL "\n" NOW "\n" CALL_END "\n", true);
    expect(&marked, required, true, CALL "\n" NOW "\n" CALL_END "\n" CALL "\n" SUM "\n" CALL_END, true);
    expect(&marked, required, true, CALL "\n" NOW "\n" CALL_END "T", false);
    expect(&marked, required, true, CALL "\n" NOW "\n" CALL_END "\n{", false); /* a call without its mark */
    expect(&marked, single, true, CALL "\n" NOW "\n" CALL_END "\n", false);
    expect(&marked, at_most_one, true, "x" CALL "\n" NOW "\n" CALL_END CALL, false);
    expect(&marked, named, true, CALL "\n{\"name\": \"s", false);
    expect(&marked, named, true, CALL "\n" NOW "\n" CALL_END, true);
}

static void test_call_plan_marks_of_text(void **state) {
    const CallShape *hermes = call_formats_named("hermes"), *list = call_formats_named("phi4-mini");

    expect(hermes, automatic, false, "Any text, <tool_cal too.", true);
    expect(hermes, automatic, false, "a<tool_call>\n" SUM "\n</tool_call> and <tool_call>\n" NOW "\n</tool_call>b",
           true);
    expect(hermes, automatic, false, "a<tool_call>x", false);
    expect(hermes, automatic, false, "<tool_call>\n" NOW "}", false);
    expect(hermes, required, false, "<tool_call>\n" NOW "\n</tool_call>\n<tool_call>\n" SUM "\n</tool_call>", true);
    expect(hermes, required, false, "a", false);
    expect(hermes, named, false, "<tool_call>\n" NOW "\n</tool_call>\n", false);
    expect(list, required, false, "<|tool_call|>[" NOW ", " SUM "]<|/tool_call|>", true);
    expect(list, single, false, "<|tool_call|>[" NOW ",", false);
}

static void test_call_plan_front(void **state) {
    const CallShape *llama = call_formats_named("llama3");
    static const char generic_now[] = "{\"tool_call\": " NOW "}";

    expect(llama, automatic, false, "{\"name\": \"sum\", \"parameters\": {\"a\": 1}}", true);
    expect(llama, automatic, false, "{\"age\": 3} is text", true);
    expect(llama, automatic, false, "So: {\"name\": \"x\"}", true);
    expect(llama, automatic, false, "{\"name\": \"x", false);
    expect(llama, required, false, "{\"a", false);
    expect(call_formats_generic, automatic, false, generic_now, true);
    expect(call_formats_generic, automatic, false, "{\"tool_call\": 1", false);
    expect(call_formats_generic, automatic, false, "{\"tool\": 1}", true);
}

/* A mark that is a token may stand before calls that need none: from there on only calls may come. */
static void test_call_plan_front_with_a_mark(void **state) {
    expect(&fronted, automatic, true, CALL NOW "; " SUM, true);
    expect(&fronted, automatic, true, NOW, true);
    expect(&fronted, automatic, true, "Any text.", true);
    expect(&fronted, automatic, true, CALL "A", false);
    expect(&fronted, automatic, true, CALL "{\"name\": \"o", false);
    expect(&fronted, at_most_one, true, CALL NOW ";", false);
    expect(&fronted, required, true, CALL, false);
    expect(&fronted, automatic, false, "<call>" NOW, true); /* the letters of a mark that is no token are text */
}

/* An infix that is a token divides the grammar if one tool may be called; with several it is text. */
static void test_call_plan_infix(void **state) {
    expect(&infixed, named, true, CALL "now" CALL_END "{}", true);
    expect(&infixed, named, true, CALL "now<", false);
    expect(&infixed, required, true, CALL "sum</call>{\"a\": 1}" CALL "now</call>{}", true);
    expect(call_formats_named("mistral-args"), required, false, "[TOOL_CALLS]sum[ARGS]{\"a\": 1}", true);
}

static void test_call_plan_refused(void **state) {
    static const struct {
        const char *tools;
        int code;
        const char *text;
    } cases[] = {
        { "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"array\", "
          "\"uniqueItems\": true}}}}]",
          GRAMMAR_E_UNSUPPORTED, "tool 'f': parameters: #/properties/a: uniqueItems" },
        { "[{\"name\": \"f\", \"parameters\": {\"type\": \"string\"}}]", GRAMMAR_E_SYNTAX,
          "tool 'f': parameters: #: type: arguments are an object" },
        { "[{\"name\": \"f\", \"parameters\": {\"properties\": 1}}]", GRAMMAR_E_SYNTAX,
          "tool 'f': parameters: #: prop" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(constraint_plan_deinit) ConstraintPlan plan = { 0 };
        _cleanup_(call_tools_freep) CallTools *tools = NULL;
        ErrText err = { 0 };
        uint32_t first;

        assert_int_equal(call_tools_new(&tools, cases[i].tools, strlen(cases[i].tools), &automatic, &err), 0);
        assert_int_equal(call_plan_add(&plan, &marked, tools, tokens.tokenizer, &GRAMMAR_LIMITS_DEFAULT, &first, &err),
                         cases[i].code);
        if (strstr(err.text, cases[i].text) != err.text)
            fail_msg("%s", err.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_plan_marks_of_tokens),
        cmocka_unit_test(test_call_plan_marks_of_text),
        cmocka_unit_test(test_call_plan_front),
        cmocka_unit_test(test_call_plan_infix),
        cmocka_unit_test(test_call_plan_front_with_a_mark),
        cmocka_unit_test(test_call_plan_refused),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
