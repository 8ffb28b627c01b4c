// SPDX-License-Identifier: Apache-2.0
/* Messages and prompts of a body. */
#undef NDEBUG
#include "gateway/request/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gateway/request/prompts.h"

static json_t *parse(const char *text) {
    json_error_t why;
    json_t *value = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);

    if (!value)
        fail_msg("%s: %s", text, why.text);
    return value;
}

static void test_messages_read(void **state) {
    static const char text[] =
        "[{\"role\":\"developer\",\"content\":\"s\"},"
        "{\"role\":\"user\",\"name\":\"ann\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"hm\",\"refusal\":null,\"annotations\":[],"
        "\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"index\":0,"
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}},"
        "{\"function\":{\"name\":\"g\",\"arguments\":{\"y\":2}}},{\"function\":{\"name\":\"h\",\"arguments\":\"\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"r\"},"
        "{\"role\":\"assistant\",\"content\":\"\",\"function_call\":{\"name\":\"o\",\"arguments\":\"{}\"}},"
        "{\"role\":\"function\",\"name\":\"o\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":null,\"refusal\":\"no\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"never\"}]}]";
    json_t *array = parse(text);
    MessageList messages = { 0 };
    ApiError error;
    const CoordgenMessage *list;

    assert_int_equal(messages_read(&messages, array, "messages", &error), 0);
    assert_int_equal(messages.n, 8);
    list = messages.list;
    assert_int_equal(list[0].role, COORDGEN_ROLE_SYSTEM);
    assert_int_equal(list[1].role, COORDGEN_ROLE_USER);
    assert_string_equal(list[1].text, "a\nb");
    assert_string_equal(list[1].name, "ann");
    assert_null(list[2].text);
    assert_string_equal(list[2].reasoning, "hm");
    assert_int_equal(list[2].n_tool_calls, 3);
    assert_string_equal(list[2].tool_calls[0].id, "1");
    assert_string_equal(list[2].tool_calls[0].arguments, "{\"x\":1}");
    assert_null(list[2].tool_calls[1].id);
    assert_string_equal(list[2].tool_calls[1].name, "g");
    assert_string_equal(list[2].tool_calls[1].arguments, "{\"y\":2}");
    assert_string_equal(list[2].tool_calls[2].arguments, "{}");
    assert_int_equal(list[3].role, COORDGEN_ROLE_TOOL);
    assert_string_equal(list[3].tool_call_id, "1");
    assert_string_equal(list[4].tool_calls[0].name, "o");
    assert_int_equal(list[5].role, COORDGEN_ROLE_TOOL);
    assert_string_equal(list[5].name, "o");
    assert_string_equal(list[6].text, "no");
    assert_string_equal(list[7].text, "never");
    messages_deinit(&messages);
    json_decref(array);
}

/* Parts are lines; those of an answer that is to be continued, the last message, are paragraphs. */
static void test_messages_parts(void **state) {
#define PARTS "\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]"
    json_t *array = parse("[{\"role\":\"assistant\"," PARTS "},{\"role\":\"user\"," PARTS "},"
                          "{\"role\":\"assistant\"," PARTS "}]");
    MessageList messages = { 0 };
    ApiError error;

    assert_int_equal(messages_read(&messages, array, "messages", &error), 0);
    assert_string_equal(messages.list[0].text, "a\nb");
    assert_string_equal(messages.list[1].text, "a\nb");
    assert_string_equal(messages.list[2].text, "a\n\nb");
    messages_deinit(&messages);
    json_decref(array);
}

static void test_messages_refusals(void **state) {
#define CONTENT(value) "[{\"role\":\"user\",\"content\":" value "}]"
#define CALL(call) "[{\"role\":\"assistant\",\"tool_calls\":[" call "]}]"
    static const struct {
        const char *array, *param;
    } cases[] = {
        { "[]", "messages" },
        { "\"string\"", "messages" },
        { "[123]", "messages[0]" },
        { "[{}]", "messages[0].role" },
        { "[{\"role\":123}]", "messages[0].role" },
        { "[{\"role\":\"king\",\"content\":\"x\"}]", "messages[0].role" },
        { "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"user\"}]", "messages[1].content" },
        { "[{\"role\":\"assistant\",\"content\":null}]", "messages[0].content" },
        { "[{\"role\":\"user\",\"content\":\"x\",\"more\":1}]", "messages[0].more" },
        { "[{\"role\":\"user\",\"content\":\"x\",\"audio\":{}}]", "messages[0].audio" },
        { CONTENT("5"), "messages[0].content" },
        { CONTENT("\"a\\u0000\""), "messages[0].content" },
        { CONTENT("[5]"), "messages[0].content[0]" },
        { CONTENT("[{\"type\":\"text\"}]"), "messages[0].content[0]" },
        { CONTENT("[{\"type\":\"text\",\"text\":5}]"), "messages[0].content[0].text" },
        { CONTENT("[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\",\"more\":1}]"),
          "messages[0].content[1].more" },
        { CONTENT("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]"), "messages[0].content[0]" },
        { CONTENT("[{\"type\":\"input_audio\"}]"), "messages[0].content[0]" },
        { CONTENT("[{\"type\":\"other\"}]"), "messages[0].content[0]" },
        { CALL("5"), "messages[0].tool_calls[0]" },
        { CALL("{}"), "messages[0].tool_calls[0].function" },
        { CALL("{\"type\":\"custom\"}"), "messages[0].tool_calls[0].type" },
        { CALL("{\"function\":{}}"), "messages[0].tool_calls[0].function.name" },
        { CALL("{\"function\":{\"name\":\"f\",\"arguments\":5}}"), "messages[0].tool_calls[0].function.arguments" },
        { "[{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\"},"
          "\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}]",
          "messages[0].function_call" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *array = parse(cases[i].array);
        MessageList messages = { 0 };
        ApiError error;

        assert_int_equal(messages_read(&messages, array, "messages", &error), API_E_REFUSED);
        if (strcmp(error.param, cases[i].param))
            fail_msg("%s: param '%s'", cases[i].array, error.param);
        messages_deinit(&messages);
        json_decref(array);
    }
}

static void test_prompts_read(void **state) {
    static const struct {
        const char *value, *param; /* param NULL: good */
        size_t n;
        bool is_array;
    } cases[] = {
        { "\"text\"", NULL, 1, false },
        { "[1,2,3]", NULL, 1, false },
        { "[\"text\"]", NULL, 1, true },
        { "[\"text\",[1,2],{\"prompt_string\":\"x\"}]", NULL, 3, true },
        { "{\"prompt_string\":\"x\"}", NULL, 1, false },
        { "\"\"", "prompt", 0, false },
        { "[]", "prompt", 0, false },
        { "[[]]", "prompt[0]", 0, false },
        { "5", "prompt", 0, false },
        { "[1,\"x\",2]", NULL, 1, false },
        { "[\"x\",2]", NULL, 1, false },
        { "[1,[2]]", "prompt[1]", 0, false },
        { "[1,\"a\\u0000\"]", "prompt[1]", 0, false },
        { "[1,4294967296]", "prompt[1]", 0, false },
        { "[1.5]", "prompt[0]", 0, false },
        { "[\"a\",\"b\",\"c\",\"d\"]", "prompt", 0, false },
        { "{\"prompt_string\":\"x\",\"multimodal_data\":\"y\"}", "prompt.multimodal_data", 0, false },
        { "{}", "prompt", 0, false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *value = parse(cases[i].value);
        PromptList prompts = { 0 };
        GenerationRequest *request = generation_request_new(sizeof(*request), NULL);
        ApiError error;
        int r = prompts_read(&prompts, request, value, 3, "prompt", &error);

        if (r != (cases[i].param ? API_E_REFUSED : 0) || (r && strcmp(error.param, cases[i].param)))
            fail_msg("%s: %d '%s'", cases[i].value, r, r ? error.param : "");
        if (!r) {
            assert_int_equal(prompts.n, cases[i].n);
            assert_int_equal(prompts.is_array, cases[i].is_array);
        }
        generation_request_free(request);
        json_decref(value);
    }
}

static void test_prompt_set(void **state) {
    json_t *value = parse("[\"text\",[7,8],[1,\"b\",2,\"c\"]]");
    GenerationRequest *request = generation_request_new(sizeof(*request), NULL);
    CoordgenGenerateOptions options;
    PromptList prompts = { 0 };
    ApiError error;

    coordgen_generate_options_init(&options);
    assert_int_equal(prompts_read(&prompts, request, value, 3, "prompt", &error), 0);
    prompt_set(&prompts.list[1], &options);
    assert_null(options.prompt);
    assert_int_equal(options.n_prompt_tokens, 2);
    assert_int_equal(options.prompt_tokens[1], 8);
    prompt_set(&prompts.list[0], &options);
    assert_string_equal(options.prompt, "text");
    assert_int_equal(options.n_prompt_tokens, 0);
    /* Ids and texts in one prompt: the ids of the texts come from the service. */
    assert_int_equal(request->texts.n, 2);
    assert_string_equal(request->texts.list[1].path, "prompt[2][3]");
    assert_int_equal(token_text_set(&request->texts.list[0], &request->owned, (uint32_t[]){ 50, 51 }, 2, &error), 0);
    assert_int_equal(token_text_set(&request->texts.list[1], &request->owned, NULL, 0, &error), 0);
    assert_int_equal(prompts_join(&prompts, request, &error), 0);
    prompt_set(&prompts.list[2], &options);
    assert_null(options.prompt);
    assert_int_equal(options.n_prompt_tokens, 4);
    assert_memory_equal(options.prompt_tokens, ((uint32_t[]){ 1, 50, 51, 2 }), 16);
    generation_request_free(request);
    json_decref(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_read),     cmocka_unit_test(test_messages_parts),
        cmocka_unit_test(test_messages_refusals), cmocka_unit_test(test_prompts_read),
        cmocka_unit_test(test_prompt_set),
    };

    return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
