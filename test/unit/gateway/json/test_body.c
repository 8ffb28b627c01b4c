// SPDX-License-Identifier: Apache-2.0
/* The JSON body of a request. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"
#include "gateway/json/body.h"

static void test_body_is_one_object(void **state) {
    static const char *const others[] = { "", "[]", "1", "{} {}", "{\"a\":1,\"a\":2}", "{\"a\":\"\xff\"}" };
    ApiError error;
    json_t *body = body_of_text("{\"a\":[1,\"\\\",,[[\"]}", strlen("{\"a\":[1,\"\\\",,[[\"]}"), &error);

    assert_string_equal(json_string_value(json_array_get(json_object_get(body, "a"), 1)), "\",,[[");
    json_decref(body);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_null(body_of_text(others[i], strlen(others[i]), &error));
        assert_int_equal(error.status, 400);
    }
}

/* Makes {"a":[0,0,...]} of n numbers, or {"a":",,..."} of n commas. */
static char *text_of(size_t n, bool in_string) {
    StrBuf text = STR_BUF_NULL;

    str_buf_add(&text, in_string ? "{\"a\":\"" : "{\"a\":[0");
    for (size_t i = in_string ? 0 : 1; i < n; i++)
        str_buf_add(&text, in_string ? "," : ",0");
    str_buf_add(&text, in_string ? "\"}" : "]}");
    return str_buf_steal(&text);
}

/* Refuses values that would take memory, before they take any; commas of a string are none. */
static void test_body_has_at_most_so_many_values(void **state) {
    static const struct {
        size_t n;
        bool in_string, fits;
    } bodies[] = {
        { BODY_VALUES_MAX - 1, false, true },
        { BODY_VALUES_MAX, false, false },
        { 2 * BODY_VALUES_MAX, true, true },
    };

    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        _cleanup_(freep) char *text = text_of(bodies[i].n, bodies[i].in_string);
        ApiError error;
        json_t *body = body_of_text(text, strlen(text), &error);

        assert_int_equal(!!body, bodies[i].fits);
        if (!body)
            assert_int_equal(error.status, 413);
        json_decref(body);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_body_is_one_object),
        cmocka_unit_test(test_body_has_at_most_so_many_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
