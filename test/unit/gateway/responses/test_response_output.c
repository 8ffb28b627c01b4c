// SPDX-License-Identifier: Apache-2.0
/* The output of a response: the events of every kind of answer go through the states that clients know, streamed and
 * whole responses have the same items, and the checker refuses every event that is missing, doubled or misplaced. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/responses/response_object.h"
#include "gateway/responses/response_output.h"
#include "test/unit/gateway/responses/response_checker.h"

/* A piece of an answer: text or thinking, or a piece of the call of a function. */
typedef struct Piece {
    CoordgenPart part;
    const char *text; /* or arguments */
    const char *name; /* first piece of a call */
    uint32_t call;
    size_t n_tokens; /* with log probabilities */
} Piece;

static const ResponseHead head = { .id = "resp_k", .created_s = 1700000000, .model = "m" };

static void record(void *arg, const char *type, json_t *event) {
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "type")), type);
    json_array_append_new(arg, event);
}

static void add(ResponseOutput *output, const Piece *piece) {
    static const CoordgenLogprob top[] = { { 1, -0.25f, "a", 1 }, { 2, -1.5f, "\xff", 1 } };
    static const CoordgenTokenLogprobs tokens[] = { { { 1, -0.25f, "a", 1 }, top, 2 },
                                                    { { 2, -1.5f, "\xff", 1 }, top, 1 } };
    const CoordgenCallDelta call = { .index = piece->call,
                                     .id = piece->name ? "id9" : NULL,
                                     .name = piece->name,
                                     .arguments = piece->text,
                                     .arguments_bytes = strlen(piece->text) };
    const bool is_call = piece->part == COORDGEN_PART_CALL;
    CoordgenEvent event = { .struct_bytes = sizeof(event),
                            .kind = COORDGEN_EVENT_DELTA,
                            .part = piece->part,
                            .text = is_call ? "" : piece->text,
                            .text_bytes = is_call ? 0 : strlen(piece->text),
                            .call = is_call ? &call : NULL,
                            .logprobs = tokens,
                            .n_logprobs = piece->n_tokens };

    response_output_add(output, &event);
}

/* Makes a response of pieces, up to its last event. Returns the events, an empty array without a listener. */
static json_t *make(const Piece *pieces, size_t n, bool is_cut, bool is_heard, json_t **itemsp) {
    const CoordgenGenerateResult result = { .end_reason = is_cut ? COORDGEN_END_MAX_TOKENS : COORDGEN_END_TOKEN };
    json_t *sent = json_array(), *echo = json_pack("{sn, sf}", "temperature", "top_p", 0.5);
    ResponseEvents events = { .send = is_heard ? record : NULL, .arg = sent };
    ResponseOutput *output = response_output_new("k", &events);
    ResponseHead with_echo = head;

    assert_non_null(output);
    with_echo.echo = echo;
    response_events_send(&events, "response.created", json_pack("{so}", "response", response_object_begun(&with_echo)));
    response_events_send(&events, "response.in_progress",
                         json_pack("{so}", "response", response_object_begun(&with_echo)));
    for (size_t i = 0; i < n; i++)
        add(output, &pieces[i]);
    response_output_end(output, is_cut);
    *itemsp = response_output_items(output);
    assert_non_null(*itemsp);
    response_events_send(
        &events, is_cut ? "response.incomplete" : "response.completed",
        json_pack("{so}", "response", response_object_ended(&with_echo, &result, json_incref(*itemsp))));
    response_output_free(output);
    json_decref(echo);
    return sent;
}

/* Checks a response in every way. Returns its items. */
static json_t *check(const Piece *pieces, size_t n, bool is_cut) {
    json_t *items, *whole_items, *told_items = NULL;
    json_t *events = make(pieces, n, is_cut, true, &items);
    json_t *silence = make(pieces, n, is_cut, false, &whole_items);
    const char *fault = response_checker_follow(events, &told_items);

    if (fault)
        fail_msg("%s: %s", fault, json_dumps(events, JSON_INDENT(1)));
    assert_int_equal(json_array_size(silence), 0);
    assert_true(json_equal(items, told_items));
    assert_true(json_equal(items, whole_items));
    json_decref(told_items);
    json_decref(whole_items);
    json_decref(silence);
    json_decref(events);
    return items;
}

/* wanted: JSON, with ' for ". */
static void expect_items(json_t *items, const char *wanted) {
    char *text = strdup(wanted);
    json_t *expected;

    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    expected = json_loads(text, 0, NULL);
    free(text);

    assert_non_null(expected);
    if (!json_equal(items, expected))
        fail_msg("%s", json_dumps(items, JSON_INDENT(1)));
    json_decref(expected);
    json_decref(items);
}

#define CHECK(is_cut, wanted, ...)                                                                                     \
    do {                                                                                                               \
        const Piece pieces_[] = { __VA_ARGS__ };                                                                       \
        expect_items(check(pieces_, ARRAY_LEN(pieces_), is_cut), wanted);                                              \
    } while (0)

#define TEXT(text)                                                                                                     \
    { COORDGEN_PART_TEXT, text, NULL, 0, 0 }
#define THINK(text)                                                                                                    \
    { COORDGEN_PART_REASONING, text, NULL, 0, 0 }
#define CALL(call, name, text)                                                                                         \
    { COORDGEN_PART_CALL, text, name, call, 0 }

static void test_response_output_of_one_kind(void **state) {
    CHECK(false,
          "[{'id':'msg_k00','type':'message','status':'completed','role':'assistant','content':[{'type':'output_text',"
          "'annotations':[],'logprobs':[],'text':'Hi there'}]}]",
          TEXT("Hi"), TEXT(" there"));
    CHECK(true,
          "[{'id':'rs_k00','type':'reasoning','status':'incomplete','summary':[],'content':[{'type':'reasoning_text',"
          "'text':'Hm'}]}]",
          THINK("H"), THINK("m"));
    CHECK(false,
          "[{'id':'fc_k00','type':'function_call','status':'completed','arguments':'{\\'a\\':1}','call_id':'id9',"
          "'name':'f'}]",
          CALL(0, "f", ""), CALL(0, NULL, "{\"a\""), CALL(0, NULL, ":1}"));
}

static void test_response_output_of_several_kinds(void **state) {
    CHECK(false,
          "[{'id':'rs_k00','type':'reasoning','status':'completed','summary':[],'content':[{'type':'reasoning_text',"
          "'text':'Hm'}]},"
          "{'id':'msg_k01','type':'message','status':'completed','role':'assistant','content':[{'type':'output_text',"
          "'annotations':[],'logprobs':[],'text':'I look.'}]},"
          "{'id':'fc_k02','type':'function_call','status':'completed','arguments':'{}','call_id':'id9','name':'f'},"
          "{'id':'fc_k03','type':'function_call','status':'completed','arguments':'[]','call_id':'id9','name':'f'},"
          "{'id':'msg_k04','type':'message','status':'completed','role':'assistant','content':[{'type':'output_text',"
          "'annotations':[],'logprobs':[],'text':'Done'}]}]",
          THINK("Hm"), THINK(""), TEXT(""), TEXT("I "), TEXT("look."), CALL(0, "f", "{}"), CALL(1, "f", "["),
          CALL(1, NULL, "]"), TEXT("Done"), TEXT(""));
    CHECK(true,
          "[{'id':'msg_k00','type':'message','status':'completed','role':'assistant','content':[{'type':'output_text',"
          "'annotations':[],'logprobs':[],'text':'I'}]},"
          "{'id':'fc_k01','type':'function_call','status':'incomplete','arguments':'{','call_id':'id9','name':'f'}]",
          TEXT("I"), CALL(0, "f", "{"));
}

/* An answer that has nothing is a message without text, so that clients find an item. */
static void test_response_output_of_nothing(void **state) {
    const char *const empty = "[{'id':'msg_k00','type':'message','status':'completed','role':'assistant','content':[{"
                              "'type':'output_text','annotations':[],'logprobs':[],'text':''}]}]";

    expect_items(check(NULL, 0, false), empty);
    CHECK(false, empty, TEXT(""));
}

/* Tokens that come ahead of their text are told with the text; those of a call are no part of a later message. */
static void test_response_output_logprobs(void **state) {
    const char *const both =
        "{'id':1,'token':'a','logprob':-0.25,'bytes':[97],'top_logprobs':[{'id':1,'token':'a','logprob':-0.25,"
        "'bytes':[97]},{'id':2,'token':'\xef\xbf\xbd','logprob':-1.5,'bytes':[255]}]}";
    const Piece pieces[] = { { COORDGEN_PART_TEXT, "", NULL, 0, 1 }, { COORDGEN_PART_TEXT, "a", NULL, 0, 1 },
                             { COORDGEN_PART_TEXT, "", NULL, 0, 1 }, { COORDGEN_PART_CALL, "{}", "f", 0, 1 },
                             { COORDGEN_PART_TEXT, "", NULL, 0, 1 }, { COORDGEN_PART_CALL, "{}", "f", 1, 0 },
                             { COORDGEN_PART_TEXT, "b", NULL, 0, 1 } };
    char wanted[2048];

    snprintf(wanted, sizeof(wanted),
             "[{'id':'msg_k00','type':'message','status':'completed','role':'assistant','content':[{'type':'output_"
             "text','annotations':[],'logprobs':[%s,%s,%s],'text':'a'}]},"
             "{'id':'fc_k01','type':'function_call','status':'completed','arguments':'{}','call_id':'id9','name':'f'},"
             "{'id':'fc_k02','type':'function_call','status':'completed','arguments':'{}','call_id':'id9','name':'f'},"
             "{'id':'msg_k03','type':'message','status':'completed','role':'assistant','content':[{'type':'output_"
             "text','annotations':[],'logprobs':[%s],'text':'b'}]}]",
             both, both, both, both);
    expect_items(check(pieces, ARRAY_LEN(pieces), false), wanted);
}

/* A piece of a call that no service sends has no name: the output stays in order. */
static void test_response_output_of_a_call_without_name(void **state) {
    CHECK(false,
          "[{'id':'fc_k00','type':'function_call','status':'completed','arguments':'{}','call_id':'','name':''}]",
          CALL(0, NULL, "{}"));
}

/* Answers of random pieces: whatever they are, the events are in order. */
static void test_response_output_of_random_pieces(void **state) {
    static const char *const texts[] = { "", "a", "bc ", "\xc3\xa9" };
    uint32_t random = 1;

    for (int round = 0; round < 300; round++) {
        Piece pieces[12];
        uint32_t n_calls = 0;
        size_t n = 0;

        for (; n < ARRAY_LEN(pieces) && random % 13; n++) {
            random = random * 1664525 + 1013904223;
            pieces[n] = (Piece){ .part = COORDGEN_PART_TEXT + (random >> 8) % 3, .text = texts[(random >> 12) % 4] };
            if (pieces[n].part == COORDGEN_PART_TEXT)
                pieces[n].n_tokens = (random >> 16) % 3;
            if (pieces[n].part == COORDGEN_PART_CALL && (!n_calls || (random >> 20) % 2))
                pieces[n].name = n_calls++ % 2 ? "f" : "g";
            pieces[n].call = n_calls ? n_calls - 1 : 0;
        }
        random = random * 1664525 + 1013904223;
        json_decref(check(pieces, n, random >> 31));
    }
}

static void test_response_output_attached_fields(void **state) {
    json_t *sent = json_array();
    ResponseEvents events = { .send = record, .arg = sent };
    ResponseOutput *output = response_output_new("k", &events);

    response_output_attach(output, json_pack("{si}", "timings", 1));
    response_output_attach(output, json_pack("{si}", "timings", 2));
    add(output, &(Piece)TEXT("a"));
    add(output, &(Piece)TEXT("b"));
    response_output_end(output, false);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(sent, 2), "timings")), 2);
    for (size_t i = 0; i < json_array_size(sent); i++)
        assert_true((i == 2) == !!json_object_get(json_array_get(sent, i), "timings"));
    response_output_free(output);
    json_decref(sent);
    assert_null(response_output_free(NULL));
}

/* ---- the checker can fail ---------------------------------------------------------------------------------------- */

static void number(json_t *events) {
    for (size_t i = 0; i < json_array_size(events); i++)
        json_object_set_new(json_array_get(events, i), "sequence_number", json_integer((json_int_t)i));
}

static void test_response_output_checker_refuses_mutations(void **state) {
    const Piece pieces[] = { THINK("Hm"), TEXT("I "), TEXT("look"), CALL(0, "f", "{"), CALL(0, NULL, "}") };
    json_t *items, *events = make(pieces, ARRAY_LEN(pieces), false, true, &items);
    const size_t n = json_array_size(events);

    assert_null(response_checker_follow(events, NULL));
    for (size_t i = 0; i < n; i++)
        for (size_t kind = 0; kind < 4; kind++) {
            json_t *changed = json_deep_copy(events), *event = json_deep_copy(json_array_get(events, i));
            const char *type = json_string_value(json_object_get(event, "type"));

            json_array_remove(changed, i);
            if (kind == 1) /* later */
                json_array_insert(changed, i + 1, event);
            for (size_t twice = 0; kind == 2 && twice < 2; twice++)
                json_array_insert(changed, i, event);
            if (kind == 3) { /* with a wrong number */
                json_object_set_new(event, "sequence_number", json_integer((json_int_t)n));
                json_array_insert(changed, i, event);
            } else {
                number(changed);
            }
            /* response.in_progress may come again, with what was computed of the prompt. */
            if (!(kind == 2 && !strcmp(type, "response.in_progress")) && !(kind == 1 && i == n - 1))
                if (!response_checker_follow(changed, NULL))
                    fail_msg("not refused: kind %zu of event %zu, %s", kind, i, type);
            json_decref(event);
            json_decref(changed);
        }
    json_decref(items);
    json_decref(events);
}

/* ---- the object -------------------------------------------------------------------------------------------------- */

static void test_response_object_failed(void **state) {
    static const struct {
        unsigned int status;
        const char *code;
    } cases[] = { { 429, "rate_limit_exceeded" }, { 400, "invalid_prompt" }, { 503, "server_error" } };
    json_t *echo = json_pack("{ss}", "user", "u");
    ResponseHead with_echo = head;

    with_echo.echo = echo;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ApiError error;
        json_t *response, *fault;

        api_error_set(&error, cases[i].status, "t", NULL, "why");
        response = response_object_failed(&with_echo, &error, json_array());
        fault = json_object_get(response, "error");
        assert_string_equal(json_string_value(json_object_get(fault, "code")), cases[i].code);
        assert_string_equal(json_string_value(json_object_get(fault, "message")), "why");
        assert_string_equal(json_string_value(json_object_get(response, "status")), "failed");
        assert_string_equal(json_string_value(json_object_get(response, "user")), "u");
        assert_true(json_is_null(json_object_get(response, "usage")));
        json_decref(response);
    }
    assert_null(response_object_failed(&with_echo, &(ApiError){ .status = 500 }, NULL));
    json_decref(echo);
}

static void test_response_object_ended(void **state) {
    const CoordgenGenerateResult result = { .end_reason = COORDGEN_END_CONTEXT_FULL,
                                            .prompt_tokens = 7,
                                            .cached_tokens = 5,
                                            .output_tokens = 4,
                                            .reasoning_tokens = 3,
                                            .temperature = 0.8f,
                                            .top_p = 0.9f };
    json_t *echo = json_pack("{sn, sf}", "temperature", "top_p", 0.5), *usage, *response;
    ResponseHead with_echo = head;

    with_echo.echo = echo;
    response = response_object_ended(&with_echo, &result, json_array());
    usage = json_loads("{\"input_tokens\":7,\"input_tokens_details\":{\"cached_tokens\":5},\"output_tokens\":4,"
                       "\"output_tokens_details\":{\"reasoning_tokens\":3},\"total_tokens\":11}",
                       0, NULL);
    assert_true(json_equal(json_object_get(response, "usage"), usage));
    assert_float_equal(json_real_value(json_object_get(response, "temperature")), 0.8, 1e-12);
    assert_float_equal(json_real_value(json_object_get(response, "top_p")), 0.5, 1e-12);
    assert_string_equal(json_string_value(json_object_get(response, "status")), "incomplete");
    assert_string_equal(json_string_value(json_object_get(json_object_get(response, "incomplete_details"), "reason")),
                        "max_output_tokens");
    assert_true(json_is_null(json_object_get(response, "completed_at")));
    assert_true(json_is_null(json_object_get(response, "error")));
    json_decref(response);
    json_decref(usage);
    json_decref(echo);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_response_output_of_one_kind),
        cmocka_unit_test(test_response_output_of_several_kinds),
        cmocka_unit_test(test_response_output_of_nothing),
        cmocka_unit_test(test_response_output_logprobs),
        cmocka_unit_test(test_response_output_of_a_call_without_name),
        cmocka_unit_test(test_response_output_of_random_pieces),
        cmocka_unit_test(test_response_output_attached_fields),
        cmocka_unit_test(test_response_output_checker_refuses_mutations),
        cmocka_unit_test(test_response_object_failed),
        cmocka_unit_test(test_response_object_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
