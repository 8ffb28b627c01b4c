// SPDX-License-Identifier: Apache-2.0
/* Tables of reports for people: numbers to the right, texts to the left, and blocks where the terminal is narrow. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/text_table.h"

static char *printed(const char *markdown, size_t width) {
    char *text = NULL;
    size_t len_bytes;
    FILE *file = open_memstream(&text, &len_bytes);

    assert_non_null(file);
    assert_int_equal(text_table_print(markdown, width, file), 0);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void assert_printed(const char *markdown, size_t width, const char *expected) {
    char *text = printed(markdown, width);

    assert_string_equal(text, expected);
    free(text);
}

#define TABLE                                                                                                          \
    "| task | mode | tokens | of plain |\n"                                                                            \
    "| --- | --- | --- | --- |\n"                                                                                      \
    "| caf\xc3\xa9 | auto | 9 | 1.25 |\n"                                                                              \
    "| ui | plain | 1024 | |\n"

static void test_text_table_lines_up(void **state) {
    assert_printed("two threads\n\n" TABLE "\nend", 0,
                   "two threads\n\n"
                   "task  mode   tokens  of plain\n"
                   "caf\xc3\xa9  auto        9      1.25\n"
                   "ui    plain    1024\n"
                   "\nend");
}

static void test_text_table_narrow(void **state) {
    static const char blocks[] = "task  mode   tokens\n"
                                 "caf\xc3\xa9  auto        9\n"
                                 "ui    plain    1024\n"
                                 "\n"
                                 "task  mode   of plain\n"
                                 "caf\xc3\xa9  auto       1.25\n"
                                 "ui    plain\n";

    assert_printed(TABLE, 21, blocks);
    assert_printed(TABLE, 28, blocks); /* one short */
    assert_printed(TABLE, 1, blocks);  /* a column has its place, whatever the width */
    assert_printed(TABLE, 29,
                   "task  mode   tokens  of plain\n"
                   "caf\xc3\xa9  auto        9      1.25\n"
                   "ui    plain    1024\n");
}

/* Lines that are no table, and empty tables. */
static void test_text_table_odd(void **state) {
    assert_printed("", 80, "");
    assert_printed("|\n", 80, "\n");
    assert_printed("| a | b |", 80, "a  b\n");
    assert_printed("| a |\n| --- |\n| x | more | than | a |\n| |\n", 80, "a\nx\n\n");
    assert_printed("| a | empty | b |\n| --- | --- | --- |\n| x | | 2 |\n", 80, "a  b\nx  2\n");
    assert_printed("| n | t |\n| --- | --- |\n| -1 | 2 |\n| - | x |\n", 80, "n   t\n-1  2\n-   x\n");
}

static void test_text_table_no_terminal(void **state) {
    FILE *file = tmpfile();

    assert_non_null(file);
    assert_int_equal(text_table_width(file), 0);
    fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_table_lines_up),
        cmocka_unit_test(test_text_table_narrow),
        cmocka_unit_test(test_text_table_odd),
        cmocka_unit_test(test_text_table_no_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
