// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gateway/plain/infill_request.h"

static InfillRequest *read_infill(const char *text, int *rp, ApiError *error) {
    json_t *body = json_loads(text, 0, NULL);
    PlainRequest *request;

    assert_non_null(body);
    request = plain_request_new(sizeof(InfillRequest), body);
    assert_non_null(request);
    *rp = plain_request_read(request, &infill_fields, infill_settle, error);
    return (InfillRequest *)request;
}

/* Files, prefix and the beginning of the gap stand before it, in this order. */
static void test_infill_prompt(void **state) {
    static const struct {
        const char *body, *prompt, *suffix;
    } rows[] = {
        { "{\"input_prefix\":\"def f(\",\"input_suffix\":\")\"}", "def f(", ")" },
        { "{\"input_prefix\":\"a\",\"prompt\":\"b\",\"input_suffix\":\"c\"}", "ab", "c" },
        { "{\"input_prefix\":\"\",\"input_suffix\":\"\",\"prompt\":null}", "", "" },
        { "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"input_extra\":[{\"filename\":\"x.h\",\"text\":\"int x;\"},"
          "{\"text\":\"int y;\",\"time\":5}]}",
          "int x;\n\nint y;\n\np", "s" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ApiError error;
        int r;
        InfillRequest *infill = read_infill(rows[i].body, &r, &error);

        assert_int_equal(r, 0);
        assert_int_equal(infill->plain.prompts.n, 1);
        assert_string_equal(infill->plain.prompts.list[0].text, rows[i].prompt);
        assert_string_equal(infill->plain.request.options.suffix, rows[i].suffix);
        plain_request_free(&infill->plain);
    }
}

static void test_infill_refused(void **state) {
    static const struct {
        const char *body, *param;
    } rows[] = {
        { "{\"input_suffix\":\"s\"}", "input_prefix" },
        { "{\"input_prefix\":\"p\"}", "input_suffix" },
        { "{\"input_prefix\":1,\"input_suffix\":\"s\"}", "input_prefix" },
        { "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"prompt\":[1]}", "prompt" },
        { "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"input_extra\":{}}", "input_extra" },
        { "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"input_extra\":[1]}", "input_extra[0]" },
        { "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"input_extra\":[{\"filename\":\"f\"}]}", "input_extra[0]" },
        { "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"input_extra\":[{\"text\":\"t\"},"
          "{\"filename\":1,\"text\":\"t\"}]}",
          "input_extra[1].filename" },
        { "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"input_extra\":[{\"text\":\"t\",\"path\":\"x\"}]}",
          "input_extra[0].path" },
        { "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"messages\":[]}", "messages" },
        { "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"prompt\":\"x\",\"grammar\":\"root ::= \\\"a\\\"\"}",
          "prompt" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ApiError error;
        int r;
        InfillRequest *infill = read_infill(rows[i].body, &r, &error);

        assert_int_equal(r, API_E_REFUSED);
        assert_int_equal(error.status, 400);
        assert_string_equal(error.param, rows[i].param);
        plain_request_free(&infill->plain);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_infill_prompt), cmocka_unit_test(test_infill_refused) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
