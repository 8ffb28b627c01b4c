// SPDX-License-Identifier: Apache-2.0
/* An answer that arrives in parts: text, thinking, pieces of calls, and pieces that no service sends. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/answer/client_answer.h"

static ProtobufCBinaryData bytes_of(const char *text) {
    return (ProtobufCBinaryData){ .len = strlen(text), .data = (uint8_t *)(uintptr_t)text };
}

static int add(ClientAnswer *answer, Coordgen__V1__AnswerPart part, const char *text, CoordgenEvent *event) {
    Coordgen__V1__GenerateDelta delta = COORDGEN__V1__GENERATE_DELTA__INIT;
    CoordgenCallDelta call;

    delta.has_part = part != 0;
    delta.part = part;
    delta.has_text = true;
    delta.text = bytes_of(text);
    *event = (CoordgenEvent){ .struct_bytes = sizeof(*event) };
    return client_answer_add(answer, &delta, event, &call);
}

static int add_call(ClientAnswer *answer, uint32_t index, const char *name, const char *arguments,
                    CoordgenCallDelta *call) {
    Coordgen__V1__GenerateDelta delta = COORDGEN__V1__GENERATE_DELTA__INIT;
    Coordgen__V1__ToolCallDelta from = COORDGEN__V1__TOOL_CALL_DELTA__INIT;
    CoordgenEvent event = { .struct_bytes = sizeof(event) };
    int r;

    delta.part = COORDGEN__V1__ANSWER_PART__ANSWER_PART_CALL;
    delta.call = &from;
    from.index = index;
    from.name = (char *)(uintptr_t)name;
    from.id = name ? (char *)(uintptr_t) "id9" : NULL;
    from.arguments = bytes_of(arguments);
    r = client_answer_add(answer, &delta, &event, call);
    if (!r) {
        assert_int_equal(event.part, COORDGEN_PART_CALL);
        assert_ptr_equal(event.call, call);
        assert_int_equal(event.text_bytes, 0);
    }
    return r;
}

static void test_client_answer_text_and_thinking(void **state) {
    ClientAnswer answer = { 0 };
    CoordgenEvent event;
    bool failed;

    assert_int_equal(add(&answer, 0, "", &event), 0);
    assert_string_equal(event.text, "");
    assert_int_equal(add(&answer, COORDGEN__V1__ANSWER_PART__ANSWER_PART_REASONING, "Hm", &event), 0);
    assert_int_equal(event.part, COORDGEN_PART_REASONING);
    assert_int_equal(add(&answer, COORDGEN__V1__ANSWER_PART__ANSWER_PART_REASONING, ".", &event), 0);
    assert_string_equal(event.text, ".");
    assert_int_equal(add(&answer, 0, "Yes", &event), 0); /* a service that knows no parts */
    assert_int_equal(event.part, COORDGEN_PART_TEXT);
    assert_int_equal(add(&answer, COORDGEN__V1__ANSWER_PART__ANSWER_PART_TEXT, "!", &event), 0);
    assert_string_equal(answer.text.data, "Yes!");
    assert_string_equal(answer.reasoning.data, "Hm.");
    assert_int_equal(add(&answer, 0, "\xc3", &event), CLIENT_ANSWER_E_TEXT);
    assert_null(client_answer_calls(&answer, &failed));
    assert_false(failed);
    client_answer_deinit(&answer);
}

static void test_client_answer_calls(void **state) {
    ClientAnswer answer = { 0 };
    CoordgenToolCall *calls;
    CoordgenCallDelta call;
    bool failed;

    assert_int_equal(add_call(&answer, 0, NULL, "{", &call), CLIENT_ANSWER_E_CALL);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(add_call(&answer, i, "sum", "", &call), 0);
        assert_string_equal(call.name, "sum");
        assert_string_equal(call.id, "id9");
        assert_string_equal(call.arguments, "");
        assert_int_equal(add_call(&answer, i, NULL, "{\"n\":", &call), 0);
        assert_null(call.name);
        assert_null(call.id);
        assert_string_equal(call.arguments, "{\"n\":");
        assert_int_equal(call.arguments_bytes, 5);
        assert_int_equal(add_call(&answer, i, NULL, "1}", &call), 0);
        assert_int_equal(call.index, i);
    }
    assert_int_equal(add_call(&answer, 10, "sum", "", &call), CLIENT_ANSWER_E_CALL);
    assert_int_equal(add_call(&answer, 7, NULL, "", &call), CLIENT_ANSWER_E_CALL);
    assert_int_equal(add_call(&answer, 8, NULL, "\xff", &call), CLIENT_ANSWER_E_TEXT);
    calls = client_answer_calls(&answer, &failed);
    assert_false(failed);
    assert_int_equal(answer.calls.n, 9);
    assert_string_equal(calls[8].name, "sum");
    assert_string_equal(calls[8].id, "id9");
    assert_string_equal(calls[8].arguments, "{\"n\":1}");
    free(calls);
    client_answer_deinit(&answer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_answer_text_and_thinking),
        cmocka_unit_test(test_client_answer_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
