// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strings/base64.h"

/* The examples of RFC 4648, and bytes that need every digit. */
static void test_base64_text(void **state) {
    static const struct {
        const char *data, *text;
    } rows[] = {
        { "", "" },
        { "f", "Zg==" },
        { "fo", "Zm8=" },
        { "foo", "Zm9v" },
        { "foob", "Zm9vYg==" },
        { "fooba", "Zm9vYmE=" },
        { "foobar", "Zm9vYmFy" },
        { "\xfb\xff\xbf", "+/+/" },
        { "\xff\xfe\xfd\xfc", "//79/A==" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_(str_buf_deinit) StrBuf buf = STR_BUF_NULL;

        str_buf_add(&buf, "<");
        base64_append(&buf, rows[i].data, strlen(rows[i].data));
        assert_string_equal(buf.data + 1, rows[i].text);
    }
}

static void test_base64_zeros(void **state) {
    static const uint8_t zeros[5];
    _cleanup_(str_buf_deinit) StrBuf buf = STR_BUF_NULL;

    base64_append(&buf, zeros, sizeof(zeros));
    assert_string_equal(buf.data, "AAAAAAA=");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_base64_text), cmocka_unit_test(test_base64_zeros) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
