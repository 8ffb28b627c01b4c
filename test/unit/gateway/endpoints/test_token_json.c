// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gateway/endpoints/token_json.h"

static void expect_piece(const char *piece, size_t len_bytes, const char *text) {
    json_t *value = token_piece_json(piece, len_bytes);
    _cleanup_(freep) char *told = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

    assert_string_equal(told, text);
    json_decref(value);
}

static void test_token_json_piece(void **state) {
    expect_piece("", 0, "\"\"");
    expect_piece(" ship", 5, "\" ship\"");
    expect_piece("\xc3\xa1", 2, "\"\xc3\xa1\"");
    expect_piece("\xc3", 1, "[195]");
    expect_piece("a\xff", 2, "[97,255]");
    expect_piece("\xed\xa0\x80", 3, "[237,160,128]"); /* a surrogate */
    expect_piece("a\0b", 3, "\"a\\u0000b\"");
}

static int read_ids(const char *text, uint32_t **idsp, size_t *np, ApiError *error) {
    json_t *list = json_loads(text, 0, NULL);
    int r = token_ids_read(list, "tokens", idsp, np, error);

    json_decref(list);
    return r;
}

static void test_token_json_ids(void **state) {
    _cleanup_(freep) uint32_t *ids = NULL, *none = NULL, *bad = NULL;
    ApiError error;
    size_t n;

    assert_int_equal(read_ids("[0, 7, 4294967295]", &ids, &n, &error), 0);
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[2], UINT32_MAX);
    assert_int_equal(read_ids("[]", &none, &n, &error), 0);
    assert_int_equal(n, 0);
    assert_non_null(none);
    assert_int_equal(read_ids("[1, -1]", &bad, &n, &error), API_E_REFUSED);
    assert_null(bad);
    assert_string_equal(error.param, "tokens");
    assert_non_null(strstr(error.message, "tokens[1] must be a token id"));
    assert_int_equal(read_ids("[4294967296]", &bad, &n, &error), API_E_REFUSED);
    assert_int_equal(read_ids("[1.0]", &bad, &n, &error), API_E_REFUSED);
    assert_int_equal(read_ids("[\"1\"]", &bad, &n, &error), API_E_REFUSED);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_token_json_piece),
                                        cmocka_unit_test(test_token_json_ids) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
