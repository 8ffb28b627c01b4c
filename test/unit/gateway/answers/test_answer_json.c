// SPDX-License-Identifier: Apache-2.0
/* Parts of answers: names of fields in errors, reasons of an end, tokens and their log probabilities, progress. */
#undef NDEBUG
#include "gateway/answers/answer_json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/answers/legacy_logprobs.h"
#include "gateway/answers/stream_times.h"
#include "gateway/answers/token_lists.h"

static void test_generation_names(void **state) {
    static const GenerationNames usual,
        own = { .max_tokens = "n_predict", .constraint = "grammar", .messages = "input" };
    static const struct {
        const GenerationNames *names;
        const char *field, *message, *param, *told;
    } cases[] = {
        { &own, "generate.max_tokens", "generate.max_tokens: too few", "n_predict", "n_predict: too few" },
        { &usual, "generate.max_tokens", "too few", "max_tokens", "too few" },
        { &own, "generate.constraint.gbnf", "generate.constraint.gbnf: line 1", "grammar", "grammar: line 1" },
        { &own, "generate.constraint.compact", "x", "compact", "x" },
        { &own, "generate.sampling.top_p", "generate.sampling.top_p: 3", "top_p", "top_p: 3" },
        { &own, "generate.sampling.repetition_window", "x", "repeat_last_n", "x" },
        { &own, "generate.sampling.dry_breaker[2]", "x", "dry_sequence_breakers[2]", "x" },
        { &own, "generate.messages.message[3].text", "x", "input[3].content", "x" },
        { &usual, "generate.messages.message[3].reasoning", "x", "messages[3].reasoning_content", "x" },
        { &own, "generate.messages", "x", "input", "x" },
        { &own, "generate.prompt_tokens", "x", "prompt", "x" },
        { &own, "generate.tool_choice.name", "x", "tool_choice", "x" },
        { &own, "generate.stop[1]", "x", "stop[1]", "x" },
        { &own, "generate", "logit_bias: token 9", "logit_bias", "logit_bias: token 9" },
        { &own, "generate", "No field: x", "", "No field: x" },
        { &own, "", "x", "", "x" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ApiError error = { 0 };

        snprintf(error.param, sizeof(error.param), "%s", cases[i].field);
        snprintf(error.message, sizeof(error.message), "%s", cases[i].message);
        generation_names_apply(cases[i].names, &error);
        assert_string_equal(error.param, cases[i].param);
        assert_string_equal(error.message, cases[i].told);
    }
}

static void test_answer_finish_reason(void **state) {
    assert_string_equal(answer_finish_reason(COORDGEN_END_TOKEN), "stop");
    assert_string_equal(answer_finish_reason(COORDGEN_END_STOP), "stop");
    assert_string_equal(answer_finish_reason(COORDGEN_END_TOOL_CALLS), "tool_calls");
    assert_string_equal(answer_finish_reason(COORDGEN_END_MAX_TOKENS), "length");
    assert_string_equal(answer_finish_reason(COORDGEN_END_CONTEXT_FULL), "length");
    assert_string_equal(answer_finish_reason(COORDGEN_END_REPETITION), "length");
    assert_string_equal(answer_finish_reason(COORDGEN_END_CANCELLED), "length");
}

static void test_answer_choice(void **state) {
    const CoordgenChoice choices[] = { { .text = "a", .seed = 1 }, { .text = "b", .seed = 2 } };
    CoordgenGenerateResult result = { .text = "t", .text_bytes = 1, .end_reason = COORDGEN_END_STOP, .seed = 9 };

    assert_int_equal(answer_n_choices(&result), 1);
    assert_string_equal(answer_choice(&result, 0).text, "t");
    assert_int_equal(answer_choice(&result, 0).seed, 9);
    assert_int_equal(answer_choice(&result, 0).end_reason, COORDGEN_END_STOP);
    result.choices = choices;
    result.n_choices = 2;
    assert_int_equal(answer_n_choices(&result), 2);
    assert_string_equal(answer_choice(&result, 1).text, "b");
}

static void expect_json(json_t *value, const char *text) {
    char *made = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));

    assert_string_equal(made, text);
    free(made);
    json_decref(value);
}

static const CoordgenLogprob tops[] = { { 5, -0.5f, "a", 1 }, { 6, -1.5f, "\xe2\x80", 2 } };
static const CoordgenTokenLogprobs tokens[] = {
    { .chosen = { 5, -0.5f, "\xc3\xa4", 2 }, .top = tops, .n_top = 2 },
    { .chosen = { 7, -INFINITY, "c", 1 }, .top = NULL, .n_top = 0 },
};

static void test_answer_token(void **state) {
    expect_json(answer_token(&tokens[0]),
                "{\"id\":5,\"token\":\"\xc3\xa4\",\"bytes\":[195,164],\"logprob\":-0.5,\"top_logprobs\":["
                "{\"id\":5,\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.5},"
                "{\"id\":6,\"token\":\"\xef\xbf\xbd\xef\xbf\xbd\",\"bytes\":[226,128],\"logprob\":-1.5}]}");
    expect_json(answer_token(&tokens[1]),
                "{\"id\":7,\"token\":\"c\",\"bytes\":[99],\"logprob\":-9999.0,\"top_logprobs\":[]}");
}

static void test_legacy_logprobs(void **state) {
    const CoordgenEvent event = { .logprobs = tokens, .n_logprobs = 2 };
    json_t *lists = legacy_logprobs_new();
    size_t n_chars = 3;

    legacy_logprobs_add(lists, &event, &n_chars);
    assert_int_equal(n_chars, 5);
    expect_json(lists, "{\"tokens\":[\"\xc3\xa4\",\"c\"],\"token_logprobs\":[-0.5,-9999.0],\"top_logprobs\":["
                       "{\"a\":-0.5,\"bytes:\\\\xe2\\\\x80\":-1.5,\"\xc3\xa4\":-0.5},null],\"text_offset\":[3,4]}");
}

static void test_token_lists(void **state) {
    const uint32_t ids[] = { 5, 7 };
    const CoordgenEvent event = { .tokens = ids, .n_tokens = 2, .logprobs = tokens + 1, .n_logprobs = 1 };
    TokenLists *lists = token_lists_new(2);

    assert_non_null(lists);
    token_lists_add(lists, 1, &event, answer_token);
    token_lists_add(lists, 1, &event, answer_token);
    token_lists_add(lists, 2, &event, answer_token); /* no such choice */
    assert_int_equal(json_array_size(token_lists_ids(lists, 0)), 0);
    assert_int_equal(json_array_size(token_lists_ids(lists, 1)), 4);
    assert_int_equal(json_array_size(token_lists_logprobs(lists, 1)), 2);
    token_lists_free(lists);
}

static void test_stream_times(void **state) {
    CoordgenEvent event = { .prompt_tokens = 10, .prefilled_tokens = 4, .cached_tokens = 4, .n_tokens = 3 };
    StreamTimes times;
    json_t *value;

    stream_times_begin(&times);
    value = stream_times_progress(&times, &event);
    assert_int_equal(json_integer_value(json_object_get(value, "total")), 10);
    assert_int_equal(json_integer_value(json_object_get(value, "cache")), 4);
    assert_int_equal(json_integer_value(json_object_get(value, "processed")), 4);
    json_decref(value);
    assert_null(stream_times_progress(&times, &event)); /* nothing new */
    event.prefilled_tokens = 10;
    value = stream_times_progress(&times, &event);
    assert_int_equal(json_integer_value(json_object_get(value, "processed")), 10);
    json_decref(value);
    event.prompt_tokens = 0; /* in the queue */
    assert_null(stream_times_progress(&times, &event));
    json_decref(stream_times_so_far(&times, &event));
    value = stream_times_so_far(&times, &event);
    assert_int_equal(json_integer_value(json_object_get(value, "predicted_n")), 6);
    json_decref(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_names), cmocka_unit_test(test_answer_finish_reason),
        cmocka_unit_test(test_answer_choice),    cmocka_unit_test(test_answer_token),
        cmocka_unit_test(test_legacy_logprobs),  cmocka_unit_test(test_token_lists),
        cmocka_unit_test(test_stream_times),
    };

    return cmocka_run_group_tests_name("answer_json", tests, NULL, NULL);
}
