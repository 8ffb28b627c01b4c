// SPDX-License-Identifier: Apache-2.0
/* Tests of UTF-8 by Unicode's table 3-7: whole characters, broken ones, and truncated ones. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strings/utf8.h"

static void test_utf8_step_every_pair(void **state) {
    for (unsigned int lead = 0; lead < 256; lead++)
        for (unsigned int second = 0; second < 256; second++) {
            const uint8_t data[2] = { (uint8_t)lead, (uint8_t)second };
            bool follows = second >= 0x80 && second <= 0xbf && !(lead == 0xe0 && second < 0xa0) &&
                           !(lead == 0xed && second > 0x9f) && !(lead == 0xf0 && second < 0x90) &&
                           !(lead == 0xf4 && second > 0x8f);
            Utf8Kind kind;
            size_t n = utf8_step(data, 2, &kind);

            if (lead < 0x80 || lead < 0xc2 || lead > 0xf4) {
                assert_int_equal(n, 1);
                assert_int_equal(kind, lead < 0x80 ? UTF8_WHOLE : UTF8_BROKEN);
            } else {
                assert_int_equal(n, follows ? 2 : 1);
                assert_int_equal(kind, !follows ? UTF8_BROKEN : lead < 0xe0 ? UTF8_WHOLE : UTF8_CUT);
            }
        }
}

/* Every code point is accepted in a decoder's shortest form, and no other bytes are. */
static void test_utf8_every_code_point(void **state) {
    size_t n_whole = 0;

    for (uint32_t bytes = 0; bytes < 1u << 24; bytes++) { /* the first three; the fourth is a plain continuation */
        const uint8_t data[4] = { (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 8), (uint8_t)bytes, 0x80 };
        const size_t n = utf8_sequence(data, 4);
        uint32_t point = n < 2 ? data[0] : data[0] & (0x7fu >> n);

        if (!n) {
            assert_false(utf8_is_valid(data, 4));
            continue;
        }
        for (size_t i = 1; i < n; i++) {
            assert_int_equal(data[i] & 0xc0, 0x80);
            point = point << 6 | (data[i] & 0x3f);
        }
        assert_true(point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff));
        assert_true(point >= (n == 1 ? 0u : n == 2 ? 0x80u : n == 3 ? 0x800u : 0x10000u));
        assert_true(utf8_is_valid(data, n));
        for (size_t cut = 1; cut < n; cut++)
            assert_true(!utf8_sequence(data, cut) && !utf8_is_valid(data, cut));
        n_whole += n > 1 ? (n == 2 ? data[2] == 0 : 1) : data[1] == 0 && data[2] == 0;
    }
    /* All characters of the first three lengths, and a sixty-fourth of those of four bytes. */
    assert_int_equal(n_whole, 0x80 + (0x800 - 0x80) + (0x10000 - 0x800 - 0x800) + 0x100000 / 64);
}

static void test_utf8_is_valid(void **state) {
    assert_true(utf8_is_valid("", 0));
    assert_true(utf8_is_valid("a\0b", 3));
    assert_true(utf8_is_valid("na\u00efve \u4e2d\U0001f600", 14));
    assert_false(utf8_is_valid("na\u00efve \u4e2d\U0001f600", 13));
    assert_false(utf8_is_valid("plain, then \x80 and plain", 23));
}

static void test_utf8_prefix(void **state) {
    static const char text[] = "a\u00e9\u4e2d\U0001f600z"; /* characters begin at 0, 1, 3, 6, 10 */
    static const size_t expected[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11, 11 };

    for (size_t n = 0; n < ARRAY_LEN(expected); n++)
        assert_int_equal(utf8_prefix(text, n), expected[n]);
    /* Broken bytes are not a truncated character. */
    assert_int_equal(utf8_prefix("ab\x80\x80", 4), 4);
    assert_int_equal(utf8_prefix("ab\xff\xff", 3), 3);
    assert_int_equal(utf8_prefix("\xf0\x90\x80", 3), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_step_every_pair),
        cmocka_unit_test(test_utf8_every_code_point),
        cmocka_unit_test(test_utf8_is_valid),
        cmocka_unit_test(test_utf8_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
