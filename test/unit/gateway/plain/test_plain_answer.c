// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gateway/plain/plain_answer.h"
#include "gateway/plain/sampling_json.h"

static void test_plain_answer_stop_types(void **state) {
    static const struct {
        CoordgenEndReason reason;
        const char *name;
    } rows[] = {
        { COORDGEN_END_TOKEN, "eos" },        { COORDGEN_END_STOP, "word" },
        { COORDGEN_END_MAX_TOKENS, "limit" }, { COORDGEN_END_CONTEXT_FULL, "limit" },
        { COORDGEN_END_REPETITION, "limit" }, { COORDGEN_END_CANCELLED, "limit" },
        { COORDGEN_END_TOOL_CALLS, "eos" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(plain_answer_stop_type(rows[i].reason), rows[i].name);
}

static void expect_selection(const char *fields, const char *text) {
    json_t *body = json_loads("{\"a\":1,\"b\":{\"c\":2,\"d\":{\"e\":3}},\"f\":null}", 0, NULL);
    json_t *list = fields ? json_loads(fields, 0, NULL) : NULL, *expected = json_loads(text, 0, NULL);
    json_t *told = plain_answer_select(body, list);

    assert_non_null(expected);
    assert_true(json_equal(told, expected));
    json_decref(told);
    json_decref(list);
    json_decref(expected);
}

static void test_plain_answer_select(void **state) {
    static const char all[] = "{\"a\":1,\"b\":{\"c\":2,\"d\":{\"e\":3}},\"f\":null}";

    expect_selection(NULL, all);
    expect_selection("[]", all);
    expect_selection("[\"a\"]", "{\"a\":1}");
    expect_selection("[\"b/c\", \"a\", \"f\"]", "{\"a\":1,\"b/c\":2,\"f\":null}");
    expect_selection("[\"b/d\"]", "{\"b/d\":{\"e\":3}}");
    expect_selection("[\"b/d/e\", \"x\", \"x/y\", \"a/b\", \"/\", \"\"]", "{}");
    assert_null(plain_answer_select(NULL, NULL));
}

/* The shortest decimals of floats, and seeds that a double cannot hold as texts. */
static void test_sampling_json(void **state) {
    CoordgenGenerateResult result = { .temperature = 0.8f,
                                      .top_p = 0.95f,
                                      .repetition_penalty = 1.1f,
                                      .top_k = 40,
                                      .repetition_window = 64,
                                      .max_tokens = 32 };
    PlainRequest *plain = plain_request_new(sizeof(*plain), json_object());
    static const char *const stops[] = { "x" };
    json_t *settings;
    _cleanup_(freep) char *text = NULL;

    assert_non_null(plain);
    plain->request.options.stops = stops;
    plain->request.options.n_stops = 1;
    settings = sampling_json(&result, &plain->request, (UINT64_C(1) << 53) + 1);
    text = json_dumps(settings, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
    assert_string_equal(text, "{\"adaptive_decay\":0.0,\"adaptive_target\":-1.0,\"dynatemp_range\":0.0,"
                              "\"ignore_eos\":false,\"max_tokens\":32,\"min_p\":0.0,\"mirostat\":0,\"n_predict\":32,"
                              "\"n_probs\":0,\"repeat_last_n\":64,\"repeat_penalty\":1.1,"
                              "\"seed\":\"9007199254740993\",\"stop\":[\"x\"],\"stream\":false,\"temperature\":0.8,"
                              "\"timings_per_token\":false,\"top_k\":40,\"top_n_sigma\":-1.0,\"top_p\":0.95}");
    json_decref(settings);
    settings = sampling_json(&result, &plain->request, 42);
    assert_int_equal(json_integer_value(json_object_get(settings, "seed")), 42);
    json_decref(settings);
    plain_request_free(plain);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_plain_answer_stop_types),
                                        cmocka_unit_test(test_plain_answer_select),
                                        cmocka_unit_test(test_sampling_json) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
