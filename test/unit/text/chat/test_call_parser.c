// SPDX-License-Identifier: Apache-2.0
/* What models write of calls in each format, and what only resembles a call. Each answer is cut in many ways. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/text/chat/parts_check.h"
#include "text/chat/call_formats.h"
#include "text/chat/call_tools.h"

static PartsVocab vocab; /* without tokens of marks */
static CallTools *tools, *loose;

static int group_setup(void **state) {
    static const char json[] = "[{\"type\": \"function\", \"function\": {\"name\": \"sum\"}}, {\"name\": \"now\"}, "
                               "{\"name\": \"a.b-c_1\"}]";
    const CallChoice choice = { .mode = CALL_MODE_AUTO };
    ErrText err;

    parts_vocab_init(&vocab, 0, NULL);
    assert_int_equal(call_tools_new(&tools, json, sizeof(json) - 1, &choice, &err), 0);
    assert_int_equal(call_tools_new(&loose, json, sizeof(json) - 1, &choice, &err), 0);
    loose->is_unconstrained = true;
    return 0;
}

static int group_teardown(void **state) {
    parts_vocab_deinit(&vocab);
    call_tools_free(tools);
    call_tools_free(loose);
    return 0;
}

static void expect_with(const CallTools *with, const char *name, const char *script, const char *wanted) {
    const AnswerFormat format = { .calls = &call_formats_named(name)->format, .tools = with };
    PartsLine line;

    parts_check(vocab.tokenizer, &format, script, strlen(script), &line);
    if (strcmp(line.text.data ? line.text.data : "", wanted) != 0)
        fail_msg("%s: %s: %s\ninstead of %s", name, script, line.text.data, wanted);
    str_buf_deinit(&line.text);
}

/* Answers that a constraint may give, so that both ways of giving them out show the same. */
static void expect(const char *name, const char *script, const char *wanted) {
    expect_with(tools, name, script, wanted);
    expect_with(loose, name, script, wanted);
}

static void test_call_parser_hermes(void **state) {
    expect("hermes",
           "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"a\": [1, {}], \"b\": \"}\\\"\"}}\n</tool_call>",
           "[c]0 sum({\"a\": [1, {}], \"b\": \"}\\\"\"}");
    expect("hermes",
           "Yes.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
           "\"sum\", \"arguments\": {\"a\":1}}\n</tool_call>\n",
           "[t]Yes.\n[c]0 now({}[c]1 sum({\"a\":1}");
    expect("hermes", "<tool_call>{\"arguments\":{\"a\":1},\"name\":\"sum\"}</tool_call> done",
           "[c]0 sum({\"a\":1}[t]done");
    expect("hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}",
           "[c]0 now({}"); /* the answer's end closes */
    expect("hermes", "<tool_call>{\"name\":\"now\"}</tool_call>", "[c]0 now({}");
    expect("hermes-inline", "<tool_call>{\"name\": \"a.b-c_1\", \"arguments\": {}}</tool_call>", "[c]0 a.b-c_1({}");
}

static void test_call_parser_lists(void **state) {
    expect("mistral",
           "[TOOL_CALLS][{\"name\": \"sum\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}, {\"name\": "
           "\"now\", \"arguments\": {}}]",
           "[c]0 sum({\"a\": 1}[c]1 now({}");
    expect("mistral-spaced", "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}}]", "[c]0 now({}");
    expect("phi4-mini", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>", "[c]0 now({}");
    expect("granite", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]", "[c]0 now({}");
    expect("nemotron", "<TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>", "[c]0 now({}");
    expect("apriel", "<tool_calls>[{\"name\": \"now\", \"arguments\": {}, \"id\": \"abcdefghi\"}]</tool_calls>",
           "[c]0 now({}");
}

static void test_call_parser_plain_names(void **state) {
    expect("mistral-args", "[TOOL_CALLS]sum[ARGS]{\"a\": 1}[TOOL_CALLS]now[ARGS]{}", "[c]0 sum({\"a\": 1}[c]1 now({}");
    expect("mistral-id-args", "[TOOL_CALLS]sum[CALL_ID]abcdefghi[ARGS]{\"a\": 1}", "[c]0 sum({\"a\": 1}");
    expect("function-tag", "<function=sum>{\"a\": 1}</function>", "[c]0 sum({\"a\": 1}");
}

static void test_call_parser_front(void **state) {
    expect("llama3", "{\"name\": \"sum\", \"parameters\": {\"a\": 1}}", "[c]0 sum({\"a\": 1}");
    expect("llama3",
           "\n{\"type\": \"function\", \"name\": \"sum\", \"parameters\": {}}; {\"name\": \"now\", "
           "\"parameters\": {}}",
           "[c]0 sum({}[c]1 now({}");
    expect("llama3", "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", "[c]0 now({}");
    expect("llama3", "Sure: {\"name\": \"now\", \"parameters\": {}}",
           "[t]Sure: {\"name\": \"now\", \"parameters\": {}}");
    expect("generic",
           "{\"tool_call\": {\"name\": \"sum\", \"arguments\": {\"a\": 1}}}\n{\"tool_call\": {\"name\": "
           "\"now\", \"arguments\": {}}}",
           "[c]0 sum({\"a\": 1}[c]1 now({}");
}

/* Text that only resembles a call stays text, to the byte. */
static void test_call_parser_text(void **state) {
    static const char *const texts[][2] = {
        { "hermes", "Write <tool_call> before it." },
        { "hermes", "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>" },
        { "hermes", "<tool_call>\n{\"nam\": \"now\"}\n</tool_call>" },
        { "hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": \"{}\"}\n</tool_call>" },
        { "hermes", "<tool_call>\n{\"name\": \"now" },
        { "hermes", "<tool_call>" },
        { "mistral", "[TOOL_CALLS] now" },
        { "mistral", "[TOOL_CALLS][]" },
        { "mistral-args", "[TOOL_CALLS]now(1)" },
        { "mistral-args", "[TOOL_CALLS]other[ARGS]{}" },
        { "llama3", "{\"a\": 1}" },
        { "llama3", "{\"name\": \"Ada\", \"age\": 3}" },
        { "llama3", "{}" },
        { "generic", "{\"answer\": {\"name\": \"now\"}}" },
        { "generic", "{\"tool_call\": 1}" },
        { "function-tag", "a <function=f> b" },
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char wanted[200];

        snprintf(wanted, sizeof(wanted), "[t]%s", texts[i][1]);
        expect(texts[i][0], texts[i][1], wanted);
    }
}

/* Without a constraint nothing is given out before the calls are whole. */
static void test_call_parser_broken(void **state) {
    static const char cut[] = "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"a\": ",
                      wrong[] = "<tool_call>{\"name\": \"sum\", \"arguments\": {\"a\" 1}}</tool_call>",
                      second[] = "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"no\"}]",
                      open[] = "<tool_call>{\"name\": \"now\", \"arguments\": {}} <tool_call>";
    static const char *const texts[][2] = {
        { "hermes", cut }, { "hermes", wrong }, { "mistral", second }, { "hermes", open }
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char wanted[200];

        snprintf(wanted, sizeof(wanted), "[t]%s", texts[i][1]);
        expect_with(loose, texts[i][0], texts[i][1], wanted);
    }
    /* With one, pieces come as they arrive; the end of the answer cuts the call off. */
    expect_with(tools, "hermes", cut, "[c]0 sum({\"a\": ");
    expect_with(tools, "hermes", "<tool_call>{\"name\": \"sum\", \"arguments\": {\"a\": \"\n\"}}",
                "[c]0 sum({\"a\": \"[t]\"}}");
}

static void expect_refused(const char *json, CallChoice choice, int code, const char *text) {
    CallTools *refused = NULL;
    ErrText err = { 0 };

    assert_int_equal(call_tools_new(&refused, json, strlen(json), &choice, &err), code);
    if (!strstr(err.text, text))
        fail_msg("%s", err.text);
}

static void test_call_parser_tools(void **state) {
    const CallChoice automatic = { .mode = CALL_MODE_AUTO }, required = { .mode = CALL_MODE_REQUIRED },
                     named = { .mode = CALL_MODE_NAMED, .name = "x" };

    expect_refused("[1,]", automatic, CALL_E_TOOLS, "tools is no JSON: byte 3");
    expect_refused("{}", automatic, CALL_E_TOOLS, "a list of tools is needed");
    expect_refused("[{\"type\": \"function\"}]", automatic, CALL_E_TOOLS, "tools[0]: no name");
    expect_refused("[{\"name\": \"a b\"}]", automatic, CALL_E_TOOLS, "tools[0].name: 'a b' is no name");
    expect_refused("[{\"name\": \"a\"}, {\"name\": \"a\"}]", automatic, CALL_E_TOOLS, "the name of tools[0], too");
    expect_refused("[{\"name\": \"a\", \"parameters\": 1}]", automatic, CALL_E_TOOLS, "tools[0].parameters");
    expect_refused("[]", required, CALL_E_CHOICE, "a call is required, but there are no tools");
    expect_refused("[{\"name\": \"a\"}]", named, CALL_E_CHOICE, "no tool has the name 'x'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_parser_hermes),      cmocka_unit_test(test_call_parser_lists),
        cmocka_unit_test(test_call_parser_plain_names), cmocka_unit_test(test_call_parser_front),
        cmocka_unit_test(test_call_parser_text),        cmocka_unit_test(test_call_parser_broken),
        cmocka_unit_test(test_call_parser_tools),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
