// SPDX-License-Identifier: Apache-2.0
/* Counts of served requests: of all users together, and of each user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/users/tally.h"

static void test_tally_of_each_user(void **state) {
    TallyTable table = { 0 };
    Tally tally;

    tally_note(&table, 1000, TALLY_DONE, 10, 4, 3);
    tally_note(&table, 1001, TALLY_FAILED, 1, 0, 0);
    tally_note(&table, 1000, TALLY_CANCELLED, 5, 0, 2);
    tally = tally_of(&table, 1000);
    assert_int_equal(tally.uid, 1000);
    assert_int_equal(tally.n_requests[TALLY_DONE], 1);
    assert_int_equal(tally.n_requests[TALLY_CANCELLED], 1);
    assert_int_equal(tally.n_requests[TALLY_FAILED], 0);
    assert_int_equal(tally.n_prompt_tokens, 15);
    assert_int_equal(tally.n_cached_tokens, 4);
    assert_int_equal(tally.n_output_tokens, 5);
    assert_int_equal(tally_of(&table, 1001).n_requests[TALLY_FAILED], 1);
    assert_int_equal(tally_of(&table, 1002).n_prompt_tokens, 0);
    assert_int_equal(table.all.n_prompt_tokens, 16);
    assert_int_equal(table.all.n_requests[TALLY_FAILED], 1);
    tally_table_deinit(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tally_of_each_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
