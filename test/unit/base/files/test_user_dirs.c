// SPDX-License-Identifier: Apache-2.0
/* Tests of a user's folders: variables precede HOME, relative paths are refused, and so is another user's runtime
 * directory. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files/user_dirs.h"

static const struct {
    UserDir kind;
    const char *variable;
    const char *in_home;
} rows[] = {
    { USER_DIR_CONFIG, "XDG_CONFIG_HOME", "/home/ada/.config/coordgen/x" },
    { USER_DIR_DATA, "XDG_DATA_HOME", "/home/ada/.local/share/coordgen/x" },
    { USER_DIR_STATE, "XDG_STATE_HOME", "/home/ada/.local/state/coordgen/x" },
    { USER_DIR_CACHE, "XDG_CACHE_HOME", "/home/ada/.cache/coordgen/x" },
};

static void test_user_dirs_variable_before_home(void **state) {
    char path[128];

    setenv("HOME", "/home/ada", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsetenv(rows[i].variable);
        assert_int_equal(user_dir(rows[i].kind, "/x", path, sizeof(path)), 0);
        assert_string_equal(path, rows[i].in_home);
        setenv(rows[i].variable, "relative", 1);
        assert_int_equal(user_dir(rows[i].kind, "/x", path, sizeof(path)), 0);
        assert_string_equal(path, rows[i].in_home);
        setenv(rows[i].variable, "/xdg", 1);
        assert_int_equal(user_dir(rows[i].kind, "", path, sizeof(path)), 0);
        assert_string_equal(path, "/xdg/coordgen");
        assert_int_equal(user_dir(rows[i].kind, "", path, sizeof("/xdg/coordgen") - 1), -ENAMETOOLONG);
        unsetenv(rows[i].variable);
    }
    setenv("HOME", "relative", 1);
    assert_int_equal(user_dir(USER_DIR_CACHE, "", path, sizeof(path)), -ENOENT);
    unsetenv("HOME");
    assert_int_equal(user_dir(USER_DIR_CACHE, "", path, sizeof(path)), -ENOENT);
}

static void test_user_dirs_runtime_is_the_users_own(void **state) {
    char folder[] = "/tmp/coordgen-user-dirs-XXXXXX", path[128], expected[128];

    setenv("HOME", "/home/ada", 1);
    unsetenv("XDG_RUNTIME_DIR");
    assert_int_equal(user_dir(USER_DIR_RUNTIME, "", path, sizeof(path)), -ENOENT);
    setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
    assert_int_equal(user_dir(USER_DIR_RUNTIME, "", path, sizeof(path)), -ENOENT);
    assert_non_null(mkdtemp(folder));
    setenv("XDG_RUNTIME_DIR", folder, 1);
    snprintf(expected, sizeof(expected), "%s/coordgen/api.sock", folder);
    assert_int_equal(user_dir(USER_DIR_RUNTIME, "/api.sock", path, sizeof(path)), 0);
    assert_string_equal(path, expected);
    if (!geteuid()) {
        assert_int_equal(chown(folder, 65534, 65534), 0);
        assert_int_equal(user_dir(USER_DIR_RUNTIME, "/api.sock", path, sizeof(path)), -EPERM);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_dirs_variable_before_home),
        cmocka_unit_test(test_user_dirs_runtime_is_the_users_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
