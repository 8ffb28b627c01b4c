// SPDX-License-Identifier: Apache-2.0
/* Small files of the state directory. test_model_pairs.c and test_model_default.c test the content of such files. */
#define _GNU_SOURCE
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/file_io.h"
#include "daemon/models/state_file.h"

static const char head[] = "test 1\n";

static int keep(void *arg, char *body) {
    char **keptp = arg;

    free(*keptp);
    *keptp = strdup(body);
    assert_non_null(*keptp);
    return strstr(body, "nonsense") ? STATE_FILE_E_DAMAGED : 0;
}

static void write_text(const char *path, const char *text, size_t len_bytes) {
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len_bytes, file), len_bytes);
    assert_int_equal(fclose(file), 0);
}

static void test_state_file(void **state) {
    char dir[] = "/tmp/coordgen-state-XXXXXX", path[64], left[96], command[64];
    _cleanup_(freep) char *kept = NULL, *text = NULL;
    StateFile file;
    size_t len_bytes;
    ErrText err;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/name", dir);
    snprintf(left, sizeof(left), "%s/name" ATOMIC_FILE_INFIX "123", dir);
    write_text(left, "half", 4);
    assert_int_equal(state_file_init(&file, dir, "name", head), 0);
    assert_int_equal(access(left, F_OK), -1); /* a temporary file of a killed writer is removed */
    assert_int_equal(state_file_read(&file, 100, keep, &kept, "all is lost"), 0);
    assert_null(kept);
    assert_int_equal(state_file_write(&file, "a\nb\n", "it", &err), 0);
    assert_int_equal(state_file_read(&file, 100, keep, &kept, "all is lost"), 0);
    assert_string_equal(kept, "a\nb\n");
    assert_int_equal(state_file_write(&file, "", "it", &err), 0);
    assert_int_equal(state_file_read(&file, 100, keep, &kept, "all is lost"), 0);
    assert_string_equal(kept, "");

    /* A file is set aside if it is of another kind, too long, cut, contains a NUL, or is refused by its owner. */
    assert_int_equal(state_file_write(&file, "a\nb\n", "it", &err), 0);
    assert_int_equal(file_slurp(path, 4096, &text, &len_bytes, &err), 0);
    for (int i = 1; i <= 5; i++) {
        snprintf(left, sizeof(left), "%s.corrupt-%d", path, i);
        write_text(path, text, len_bytes - (i == 3 ? 1 : 0));
        if (i == 1)
            write_text(path, "other 1\n", 8);
        if (i == 4)
            write_text(path, "test 1\na\0b\n", 11);
        if (i == 5)
            assert_int_equal(state_file_write(&file, "nonsense\n", "it", &err), 0);
        assert_int_equal(access(left, F_OK), -1);
        assert_int_equal(state_file_read(&file, i == 2 ? 3 : 100, keep, &kept, "all is lost"), 0);
        assert_int_equal(access(left, F_OK), 0);
        assert_int_equal(access(path, F_OK), -1);
    }
    state_file_deinit(&file);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void test_state_file_nowhere(void **state) {
    StateFile file;
    ErrText err;

    assert_int_equal(state_file_init(&file, "", "name", head), 0);
    assert_int_equal(state_file_read(&file, 100, keep, NULL, ""), 0);
    assert_int_equal(state_file_write(&file, "a\n", "things", &err), STATE_FILE_E_STORE);
    assert_non_null(strstr(err.text, "no folder to keep things in"));
    state_file_deinit(&file);
}

static void test_state_file_names(void **state) {
    assert_true(state_file_is_name("größe =,1"));
    assert_false(state_file_is_name("a\tb"));
    assert_false(state_file_is_name("a\nb"));
    assert_false(state_file_is_name("a\x7f"));
    assert_false(state_file_is_name("\xff"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_file),
        cmocka_unit_test(test_state_file_nowhere),
        cmocka_unit_test(test_state_file_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
