// SPDX-License-Identifier: Apache-2.0
/* Tests of the names that fields of the service get in errors. Integration tests run queries. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gateway/service/query.h"

static void test_query_rename(void **state) {
    static const QueryField fields[] = { { "text", "input" }, { "tokens", "input" }, { "tool", "wrong" } };
    static const struct {
        const char *field, *message, *param, *told;
    } rows[] = {
        { "embed.text[1]", "embed.text[1]: the text is empty", "input[1]", "input[1]: the text is empty" },
        { "embed.tokens", "embed.tokens: text 1: token 0 is 9", "input", "input: text 1: token 0 is 9" },
        { "embed.model", "there is no model 'x'", "model", "there is no model 'x'" },
        { "embed.pooling", "embed.pooling: 7 is none", "pooling", "pooling: 7 is none" },
        { "tokenize.tools", "tokenize.tools: no JSON", "tools", "tools: no JSON" }, /* not "tool" */
        { "generate.sampling.top_p", "generate.sampling.top_p: 2", "sampling.top_p", "sampling.top_p: 2" },
        { "embed.te[0]", "embed.te[0]: no", "te[0]", "te[0]: no" }, /* not "text" */
        { "", "busy", "", "busy" },
        { "struct_bytes", "an old library", "struct_bytes", "an old library" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ApiError error = { .status = 400 };

        snprintf(error.param, sizeof(error.param), "%s", rows[i].field);
        snprintf(error.message, sizeof(error.message), "%s", rows[i].message);
        query_rename_field(&error, fields, ARRAY_LEN(fields));
        assert_string_equal(error.param, rows[i].param);
        assert_string_equal(error.message, rows[i].told);
    }
}

/* A longer name never runs over the room of the message. */
static void test_query_rename_long(void **state) {
    static const QueryField fields[] = { { "t", "a_name_that_is_longer" } };
    ApiError error = { .status = 400, .param = "o.t" };

    memset(error.message, 'x', sizeof(error.message) - 1);
    memcpy(error.message, "o.t:", 4);
    query_rename_field(&error, fields, 1);
    assert_int_equal(strlen(error.message), sizeof(error.message) - 1);
    assert_memory_equal(error.message, "a_name_that_is_longer:xxx", 25);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_query_rename), cmocka_unit_test(test_query_rename_long) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
