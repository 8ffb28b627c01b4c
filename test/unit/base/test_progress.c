// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/progress.h"

#define SECOND 1000000000u

static void test_progress_line(void **state) {
    char line[320];

    progress_line(line, sizeof(line), 100, false, "hashing", 50000000, 100000000, 50000000, 2ull * SECOND);
    assert_string_equal(line, "hashing [###############...............]  50%  50.0/100.0 MB  25.0 MB/s  0:02 left");
    progress_line(line, sizeof(line), 100, true, "hashing", 0, 0, 0, 0);
    assert_string_equal(line, "hashing [\033[32m##############################\033[0m] 100%  0.0/0.0 B");
    progress_line(line, sizeof(line), 0, false, "converting", 1000, 1117000000, 1000, 100 * (uint64_t)SECOND);
    assert_string_equal(line, "converting   0%  0.0/1.1 GB  10.0 B/s  -- left");
    progress_line(line, sizeof(line), 0, false, "converting", 1, 7300, 1, SECOND);
    assert_string_equal(line, "converting   0%  0.0/7.3 kB  1.0 B/s  2:01:39 left");
}

/* The line is shorter than any width, so that the terminal never wraps it. */
static void test_progress_line_fits(void **state) {
    char line[320];

    for (unsigned int columns = 2; columns < 200; columns++) {
        progress_line(line, sizeof(line), columns, false, "converting", 123456789, 987654321, 123456789, 3ull * SECOND);
        assert_true(strlen(line) < columns);
    }
}

static void test_progress_not_a_terminal(void **state) {
    char text[256] = "";
    Progress progress;
    int ends[2];
    ssize_t n;

    assert_int_equal(pipe(ends), 0);
    progress_init(&progress, ends[1]);
    assert_false(progress.terminal || progress.colour);
    for (uint64_t i = 0; i < 1000; i++)
        progress_update(&progress, "hashing", i, 1000);
    progress_update(&progress, "converting", 0, 10);
    progress_end(&progress);
    n = read(ends[0], text, sizeof(text) - 1);
    assert_true(n > 0);
    assert_string_equal(text, "hashing\nconverting\n"); /* no bar, no escape sequences, few lines */
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_line),
        cmocka_unit_test(test_progress_line_fits),
        cmocka_unit_test(test_progress_not_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
