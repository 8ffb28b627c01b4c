// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/users/no_history.h"

static void test_no_history_nobody(void **state) {
    NoHistory list = { 0 };

    assert_false(no_history_has(&list, 0, ""));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(no_history_set(&list, (const char *[]){ "", " ", ", ,\t," }[i]), 0);
        assert_false(no_history_has(&list, 0, ""));
        assert_false(no_history_has(&list, 0, " "));
        assert_false(no_history_has(&list, 1000, "app"));
    }
    no_history_deinit(&list);
}

/* The list takes numbers and names of users, and names of apps, which may contain blanks. */
static void test_no_history_has(void **state) {
    NoHistory list = { 0 };

    assert_int_equal(no_history_set(&list, " 1000 ,root,, diary of ada\t,4294967295,4294967296"), 0);
    assert_true(no_history_has(&list, 1000, ""));
    assert_true(no_history_has(&list, 0, "anything"));
    assert_true(no_history_has(&list, UINT32_MAX, ""));
    assert_true(no_history_has(&list, 7, "diary of ada"));
    assert_true(no_history_has(&list, 7, "root")); /* an app may have this name, too */
    assert_true(no_history_has(&list, 7, "1000"));
    assert_false(no_history_has(&list, 7, ""));
    assert_false(no_history_has(&list, 7, "diary"));
    assert_false(no_history_has(&list, 7, "diary of ada "));
    assert_false(no_history_has(&list, 100, ""));
    assert_int_equal(no_history_set(&list, "x"), 0);
    assert_false(no_history_has(&list, 1000, ""));
    assert_true(no_history_has(&list, 1000, "x"));
    no_history_deinit(&list);
    assert_false(no_history_has(&list, 1000, "x"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_history_nobody),
        cmocka_unit_test(test_no_history_has),
    };

    return cmocka_run_group_tests_name("no_history", tests, NULL, NULL);
}
