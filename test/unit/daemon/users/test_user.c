// SPDX-License-Identifier: Apache-2.0
/* The registry of users has one object per uid, which exists as long as somebody holds a reference. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/users/user.h"

static void test_user_one_a_uid(void **state) {
    UserTable table;
    User *a, *b, *other;

    user_table_init(&table, NULL, NULL, NULL);
    assert_null(user_find(&table, 1000));
    a = user_get(&table, 1000);
    b = user_get(&table, 1000);
    other = user_get(&table, 1000 + USER_BUCKETS); /* a uid in the same bucket */
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

/* The iteration meets each known user once, across buckets, and also if the previous user is freed meanwhile. */
static void test_user_next_meets_all(void **state) {
    static const uid_t uids[] = { 0, 7, 7 + USER_BUCKETS, 7 + 2 * USER_BUCKETS, USER_BUCKETS - 1 };
    unsigned int n_met[3 * USER_BUCKETS] = { 0 }, n = 0;
    User *user = NULL, *next;
    UserTable table;

    user_table_init(&table, NULL, NULL, NULL);
    assert_null(user_next(&table, NULL));
    for (size_t i = 0; i < ARRAY_LEN(uids); i++)
        assert_non_null(user_get(&table, uids[i]));
    while ((user = user_next(&table, user))) {
        n_met[user->uid]++;
        n++;
    }
    for (size_t i = 0; i < ARRAY_LEN(uids); i++)
        assert_int_equal(n_met[uids[i]], 1);
    assert_int_equal(n, ARRAY_LEN(uids));
    for (user = user_next(&table, NULL); user; user = next) {
        next = user_next(&table, user);
        user_unref(user);
        n--;
    }
    assert_int_equal(n, 0);
    assert_null(user_next(&table, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_one_a_uid),
        cmocka_unit_test(test_user_known_while_held),
        cmocka_unit_test(test_user_next_meets_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
