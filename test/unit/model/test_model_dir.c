// SPDX-License-Identifier: Apache-2.0
/* Tests the default folder of models: the service's, root's, a user's. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files/paths.h"

#include "model/model_dir.h"

static void test_model_dir_of_a_service(void **state) {
    char path[128];

    setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b", 1);
    assert_int_equal(model_dir_default(false, path, sizeof(path)), 0);
    assert_string_equal(path, "/var/lib/a/models");
    assert_int_equal(model_dir_default(false, path, 17), -ENAMETOOLONG);
    unsetenv("STATE_DIRECTORY");
}

static void test_model_dir_of_root(void **state) {
    char path[128];

    if (geteuid())
        skip();
    assert_int_equal(model_dir_default(false, path, sizeof(path)), 0);
    assert_string_equal(path, PATH_MODEL_DIR);
    setenv("XDG_DATA_HOME", "/xdg", 1); /* root's own service, coordgend --user */
    assert_int_equal(model_dir_default(true, path, sizeof(path)), 0);
    assert_string_equal(path, "/xdg/coordgen/models");
    unsetenv("XDG_DATA_HOME");
}

static void test_model_dir_of_a_user(void **state) {
    const uid_t uid = geteuid();
    char path[128];

    if (!uid)
        assert_int_equal(seteuid(65534), 0);
    setenv("HOME", "/home/someone", 1);
    setenv("XDG_DATA_HOME", "/xdg", 1);
    assert_int_equal(model_dir_default(false, path, sizeof(path)), 0);
    assert_string_equal(path, "/xdg/coordgen/models");
    setenv("XDG_DATA_HOME", "relative", 1);
    assert_int_equal(model_dir_default(false, path, sizeof(path)), 0);
    assert_string_equal(path, "/home/someone/.local/share/coordgen/models");
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    assert_int_equal(model_dir_default(false, path, sizeof(path)), -ENOENT);
    if (!uid)
        assert_int_equal(seteuid(0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_dir_of_a_service),
        cmocka_unit_test(test_model_dir_of_root),
        cmocka_unit_test(test_model_dir_of_a_user),
    };

    unsetenv("STATE_DIRECTORY");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
