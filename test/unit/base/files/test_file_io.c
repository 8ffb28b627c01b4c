// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"

static char folder[64];

static int setup(void **state) {
    snprintf(folder, sizeof(folder), "/tmp/coordgen-test-file-io-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
    return rmdir(folder);
}

static void assert_folder(const char *path) {
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
}

static void test_file_io_make_dirs(void **state) {
    char inner[128], outer[128], with_slash[128];
    ErrText err = { 0 };

    snprintf(outer, sizeof(outer), "%s/a", folder);
    snprintf(inner, sizeof(inner), "%s/a//b", folder);
    snprintf(with_slash, sizeof(with_slash), "%s/a/b/", folder);
    assert_int_equal(file_make_dirs(inner, &err), 0);
    assert_folder(inner);
    assert_int_equal(file_make_dirs(inner, &err), 0); /* exists already */
    assert_int_equal(file_make_dirs(with_slash, &err), 0);
    assert_int_equal(file_make_dirs("/", &err), 0);
    assert_int_equal(file_make_dirs(".", &err), 0);
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(rmdir(outer), 0);
}

/* An empty name is no folder: refused before a byte after it is read. */
static void test_file_io_make_dirs_refuses_an_empty_name(void **state) {
    ErrText err = { 0 };

    assert_int_equal(file_make_dirs("", &err), -EINVAL);
    assert_non_null(strstr(err.text, "its name is empty"));
    assert_int_equal(file_make_dirs("", NULL), -EINVAL);
}

static void test_file_io_make_dirs_names_what_is_in_the_way(void **state) {
    char file[128], below[160];
    ErrText err = { 0 };
    FILE *out;

    snprintf(file, sizeof(file), "%s/file", folder);
    snprintf(below, sizeof(below), "%s/below", file);
    out = fopen(file, "w");
    assert_non_null(out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(file_make_dirs(below, &err), -ENOTDIR);
    assert_non_null(strstr(err.text, below));
    assert_int_equal(unlink(file), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_io_make_dirs),
        cmocka_unit_test(test_file_io_make_dirs_refuses_an_empty_name),
        cmocka_unit_test(test_file_io_make_dirs_names_what_is_in_the_way),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
