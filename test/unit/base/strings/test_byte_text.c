// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strings/byte_text.h"

static void test_byte_text(void **state) {
    static const struct {
        uint64_t len_bytes;
        const char *text;
    } rows[] = {
        { 0, "0 B" },
        { 1, "1 B" },
        { 1023, "1023 B" },
        { 1024, "1.0 KiB" },
        { 1536, "1.5 KiB" },
        { (1 << 20) - 1, "1.0 MiB" },
        { 235196928, "224.3 MiB" },
        { UINT64_C(3) << 30, "3.0 GiB" },
        { UINT64_MAX, "16.0 EiB" },
    };
    ByteText text;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(byte_text(&text, rows[i].len_bytes), rows[i].text);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_byte_text) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
