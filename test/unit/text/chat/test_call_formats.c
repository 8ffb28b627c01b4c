// SPDX-License-Identifier: Apache-2.0
/* Which format of calls a public template has, how it takes arguments, and what is rewritten for templates that drop
 * calls. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/text/tokenizer/tokenizer_fixture.h"

#define TOOLS                                                                                                          \
    "[{\"type\": \"function\", \"function\": {\"name\": \"now\", \"description\": \"The time.\", \"parameters\": "     \
    "{\"type\": \"object\", \"properties\": {}}}}]"

static Tokenizer *tokenizer;
static TokenizerFixture fixture;

static int group_setup(void **state) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");

    if (fixture_init(&fixture, &spec) || tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s", fixture.err.text);
    return 0;
}

static int group_teardown(void **state) {
    tokenizer_free(tokenizer);
    fixture_deinit(&fixture);
    return 0;
}

static void read_template(ChatTemplate *chat, const char *name) {
    static char source[1 << 20];
    char path[256];
    size_t n;
    FILE *file;

    snprintf(path, sizeof(path), "test/golden/templates/%s.jinja", name);
    file = fopen(path, "re");
    if (!file)
        fail_msg("%s: run the test in the root of the repository", path);
    n = fread(source, 1, sizeof(source), file);
    fclose(file);
    assert_int_equal(chat_template_parse(chat, source, n), 0);
    assert_non_null(chat->jinja);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *format; /* NULL: not in the table of formats */
    bool as_text;
} expected[] = {
    { "public/qwen2.5", "hermes", false },
    { "public/qwen2.5-vl", "generic", false },
    { "public/qwen3", "hermes", false },
    { "public/qwen3-instruct-2507", "hermes", false },
    { "public/qwq", "hermes", false },
    { "public/smollm3", "hermes", false },
    { "public/granite-4.0", "hermes", false },
    { "public/mistral-7b-v0.3", "mistral-spaced", false },
    { "public/mistral-nemo", "mistral", false },
    { "public/ministral-3", "mistral-args", false },
    { "public/devstral-small-2", "mistral-args", false },
    { "public/granite-3.3", "granite", false },
    { "public/smollm2", "generic", false },
    { "public/phi-3-mini", "generic", false },
    { "public/yi-1.5", "generic", false },
    { "own/llama3.1-like", "llama3", false },
    { "own/gemma3-like", "generic", false },
    { "own/gemma2-like", "generic", false },
    { "public/qwen3-coder", NULL, false },
    { "public/glm-4.5", NULL, false },
    { "public/gpt-oss", NULL, false },
    { "public/deepseek-v3.1", NULL, false },
};

static void test_call_formats_of_templates(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
        const CallShape *shape;

        read_template(&chat, expected[i].name);
        shape = chat_template_calls(&chat, tokenizer);
        if (!shape != !expected[i].format || (shape && strcmp(shape->format.name, expected[i].format) != 0))
            fail_msg("%s: %s", expected[i].name, shape ? shape->format.name : "unknown");
        if (chat.calls.as_text != expected[i].as_text)
            fail_msg("%s: as text: %d", expected[i].name, chat.calls.as_text);
    }
}

/* Templates that fail with objects, or write them as Python does, get the text. */
static void test_call_formats_form_of_arguments(void **state) {
    static const char front[] = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}",
                      back[] = "{% endfor %}{% endfor %}{{ tools }}";
    static const struct {
        const char *call;
        bool as_text;
    } cases[] = {
        { "{{ c.function.name + c.function.arguments }}", true },
        { "{{ c.function.name ~ c.function.arguments }}", true },
        { "{{ c.function.name ~ c.function.arguments|tojson }}", false },
        { "{{ c.function.name }}{% for k, v in c.function.arguments|items %}{{ k }}={{ v }}{% endfor %}", false },
        { "{{ c.function.arguments if c.function.arguments is string else c.function.arguments|tojson }}", false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
        char source[400];

        snprintf(source, sizeof(source), "%s%s%s", front, cases[i].call, back);
        assert_int_equal(chat_template_parse(&chat, source, strlen(source)), 0);
        if (chat.calls.as_text != cases[i].as_text || chat.calls.drops_calls || chat.calls.drops_results)
            fail_msg("case %zu: as text %d", i, chat.calls.as_text);
    }
}

/* --- rewriting ---------------------------------------------------------------------------------------------------- */

static const ChatToolCall calls[] = { { .id = "a", .name = "now", .arguments = "{\"zone\": \"UTC\"}" },
                                      { .name = "now" } };
static const ChatMessage called[] = {
    { .role = CHAT_ROLE_USER, .text = "Time?", .len_bytes = 5 },
    { .role = CHAT_ROLE_ASSISTANT, .text = "I look.", .len_bytes = 7, .tool_calls = calls, .n_tool_calls = 2 },
    { .role = CHAT_ROLE_TOOL, .text = "noon", .len_bytes = 4, .tool_call_id = "a", .name = "now" },
    { .role = CHAT_ROLE_TOOL, .text = "late", .len_bytes = 4 },
};

/* Renders with a template of a source; wanted has no description of the tools where it says TOOLS. */
static void expect_rendered(const char *source, bool offers, const char *wanted) {
    _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    const ChatInput input = { .messages = called,
                              .n_messages = ARRAY_LEN(called),
                              .tools = offers ? TOOLS : NULL,
                              .tools_bytes = offers ? sizeof(TOOLS) - 1 : 0,
                              .offers_calls = offers };
    ErrText err;

    assert_int_equal(chat_template_parse(&chat, source, strlen(source)), 0);
    if (chat_template_render(&chat, tokenizer, &input, &text, &err))
        fail_msg("%s", err.text);
    if (offers) {
        const char *described = strstr(text.data, "You can call these tools:\n{\"name\": \"now\", ");

        assert_non_null(described);
        assert_non_null(strstr(described, "{\"tool_call\": {\"name\": "));
    } else {
        assert_string_equal(text.data, wanted);
    }
}

#define PLAIN                                                                                                          \
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no') }}{% endif %}<{{ m.role }}>"             \
    "{{ m.content }}{% endfor %}"

/* Calls and results that a template would drop become text in the model's format. */
static void test_call_formats_rewriting(void **state) {
    _cleanup_(chat_template_deinit) ChatTemplate smollm3 = { 0 };
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    ErrText err;

    expect_rendered(PLAIN, false,
                    "<user>Time?<assistant>I look.\n{\"tool_call\": {\"name\": \"now\", \"arguments\": {\"zone\": "
                    "\"UTC\"}}}\n{\"tool_call\": {\"name\": \"now\", \"arguments\": {}}}<user>The tool now has "
                    "answered:\nnoon\n\nThe tool has answered:\nlate");
    expect_rendered(PLAIN, true, NULL);
    read_template(&smollm3, "public/smollm3");
    assert_true(smollm3.calls.drops_calls && !smollm3.calls.drops_results);
    assert_int_equal(chat_template_render(&smollm3, tokenizer,
                                          &(ChatInput){ .messages = called, .n_messages = ARRAY_LEN(called) }, &text,
                                          &err),
                     0);
    assert_non_null(strstr(text.data, "I look.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {\"zone\": "
                                      "\"UTC\"}}\n</tool_call>\n<tool_call>\n"));
}

/* Ids and names that messages lack come from the calls, so that strict templates take them. */
static void test_call_formats_ids(void **state) {
    static const char source[] = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.id }}:{{ c.type }} {% "
                                 "endfor %}{% if m.role == 'tool' %}[{{ m.tool_call_id }} {{ m.name }} {{ m.content "
                                 "}}]{% endif %}{% endfor %}";
    _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    const ChatInput input = { .messages = called, .n_messages = ARRAY_LEN(called), .call_form = CHAT_CALLS_AS_OBJECT };
    const ChatToolCall bad = { .name = "now", .arguments = "[1]" };
    const ChatMessage refused[] = {
        { .role = CHAT_ROLE_ASSISTANT, .text = "", .tool_calls = &bad, .n_tool_calls = 1 }
    };
    ErrText err;

    assert_int_equal(chat_template_parse(&chat, source, sizeof(source) - 1), 0);
    assert_int_equal(chat_template_render(&chat, tokenizer, &input, &text, &err), 0);
    assert_string_equal(text.data, "a:function call00002:function [a now noon][call00002 now late]");
    assert_int_equal(
        chat_template_render(&chat, tokenizer, &(ChatInput){ .messages = refused, .n_messages = 1 }, &text, &err),
        CHAT_E_CALLS);
    assert_string_equal(err.text, "message 1: the arguments of a call of 'now' are no JSON object");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_formats_of_templates),
        cmocka_unit_test(test_call_formats_form_of_arguments),
        cmocka_unit_test(test_call_formats_rewriting),
        cmocka_unit_test(test_call_formats_ids),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
