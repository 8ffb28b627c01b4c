// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/strings/printable.h"

static void test_printable_escapes(void **state) {
    static const struct {
        const char *text, *shown;
    } rows[] = {
        { "", "" },
        { "caf\u00e9 \u4e2d \U0001f600", "caf\u00e9 \u4e2d \U0001f600" },
        { "caf\xe9.gguf", "caf\\xe9.gguf" },
        { "a\nb\x1b[2J\x7f", "a\\x0ab\\x1b[2J\\x7f" },
        { "\xc2\x85", "\\xc2\\x85" },                   /* C1: next line */
        { "\xc0\xaf", "\\xc0\\xaf" },                   /* overlong */
        { "\xed\xa0\x80", "\\xed\\xa0\\x80" },          /* a surrogate */
        { "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" }, /* past U+10FFFF */
        { "x\xe4\xb8", "x\\xe4\\xb8" },
        { "back\\slash", "back\\slash" },
    };
    char out[64], again[64];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(printable_put(out, sizeof(out), rows[i].text, strlen(rows[i].text)), strlen(rows[i].shown));
        assert_string_equal(out, rows[i].shown);
        printable_put(again, sizeof(again), out, strlen(out));
        assert_string_equal(again, out);
    }
    assert_int_equal(printable_put(out, sizeof(out), "a\0b", 3), 6);
    assert_string_equal(out, "a\\x00b");
}

/* Every room: never exceeded, always whole characters, "..." exactly if something is left out. */
static void test_printable_room(void **state) {
    static const char text[] = "ab\u00e9\xff\U0001f600\u4e2d\nend";
    char whole[64], out[64];
    size_t len_bytes = printable_put(whole, sizeof(whole), text, strlen(text));

    for (size_t room = 4; room < sizeof(out); room++) {
        size_t n;

        memset(out, 'Z', sizeof(out));
        n = printable_put(out, room, text, strlen(text));
        assert_true(n < room);
        assert_int_equal(out[n], 0);
        assert_int_equal(out[room], 'Z');
        for (size_t i = 0, step; i < n; i += step)
            assert_true((step = utf8_sequence(out + i, n - i)) > 0);
        if (room > len_bytes) {
            assert_string_equal(out, whole);
        } else {
            assert_string_equal(out + n - 3, "...");
            assert_memory_equal(out, whole, n - 3);
        }
    }
}

static void test_printable_dup(void **state) {
    _cleanup_(freep) char *all = NULL, *some = NULL;

    all = printable_dup("caf\xe9", 255);
    assert_string_equal(all, "caf\\xe9");
    some = printable_dup("\u00e9\u00e9\u00e9\u00e9\u00e9", 8);
    assert_string_equal(some, "\u00e9\u00e9...");
}

static char logged[2048];

static void keep_line(LogLevel level, const char *topic, const char *line) {
    snprintf(logged, sizeof(logged), "%s", line);
}

/* Texts of errors and logs with values of any content and length. */
static void test_printable_of_errors_and_logs(void **state) {
    char many[2000];
    ErrText err;

    assert_int_equal(err_set(&err, 7, "%s: it has '%c'", "caf\xe9.gguf", '\n'), 7);
    assert_string_equal(err.text, "caf\\xe9.gguf: it has '\\x0a'");
    err_prefix(&err, "%s", "\xff");
    assert_string_equal(err.text, "\\xff: caf\\xe9.gguf: it has '\\x0a'");
    err_set(&err, 0, "%s again", err.text); /* argument is the text itself */
    assert_string_equal(err.text, "\\xff: caf\\xe9.gguf: it has '\\x0a' again");
    for (size_t shift = 0; shift < 2; shift++) {
        memset(many, 'a', shift);
        for (size_t i = shift; i + 2 < sizeof(many); i += 2)
            memcpy(many + i, "\u00e9", 3);
        err_set(&err, 0, "%s", many);
        for (size_t turn = 0; turn < 2; turn++) {
            for (size_t i = 0, step; err.text[i]; i += step)
                assert_true((step = utf8_sequence(err.text + i, strlen(err.text + i))) > 0);
            assert_null(strchr(err.text, '\\'));
            err_prefix(&err, "x");
        }
    }
    log_set_sink(keep_line);
    log_error(TOPIC_BASE, "file %s\nforged", "\xc3");
    log_set_sink(NULL);
    assert_string_equal(logged, "file \\xc3\\x0aforged");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable_escapes),
        cmocka_unit_test(test_printable_room),
        cmocka_unit_test(test_printable_dup),
        cmocka_unit_test(test_printable_of_errors_and_logs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
