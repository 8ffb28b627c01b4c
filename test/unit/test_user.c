// SPDX-License-Identifier: Apache-2.0
/* The registry of users: one object a uid, there while somebody holds it. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/user.h"

static void test_user_one_a_uid(void **state) {
    UserTable table;
    User *a, *b, *other;

    user_table_init(&table, NULL, NULL, NULL);
    assert_null(user_find(&table, 1000));
    a = user_get(&table, 1000);
    b = user_get(&table, 1000);
    other = user_get(&table, 1000 + USER_BUCKETS); /* of the same bucket */
    assert_non_null(a);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, other);
    assert_ptr_equal(user_find(&table, 1000 + USER_BUCKETS), other);
    assert_null(user_unref(a));
    assert_ptr_equal(user_find(&table, 1000), b);
    assert_null(user_unref(b));
    assert_null(user_find(&table, 1000));
    assert_ptr_equal(user_find(&table, 1000 + USER_BUCKETS), other);
    user_unref(other);
}

static void test_user_known_while_held(void **state) {
    UserTable table;
    User *user;

    user_table_init(&table, NULL, NULL, NULL);
    user = user_get(&table, 7);
    assert_ptr_equal(user_ref(user), user);
    user->n_connections = 3;
    user_unref(user);
    assert_int_equal(user_find(&table, 7)->n_connections, 3);
    user->n_connections = 0;
    user_unref(user);
    assert_null(user_find(&table, 7));
    assert_null(user_unref(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_one_a_uid),
        cmocka_unit_test(test_user_known_while_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
