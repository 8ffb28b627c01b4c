// SPDX-License-Identifier: Apache-2.0
/* Lists of whole numbers in coordgen-bench's options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench/number_list.h"

static void test_number_list_several(void **state) {
    static const char *const wrong[] = { "", ",", "1,", "1,,2", "1,101", "1 ,2", "1;2" };
    NumberList list;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_false(number_list_parse(wrong[i], 0, 100, &list));
    assert_true(number_list_parse("7", 0, 100, &list));
    assert_true(list.n == 1 && list.at[0] == 7);
    assert_true(number_list_parse("0,25,100", 0, 100, &list));
    assert_true(list.n == 3 && list.at[0] == 0 && list.at[1] == 25 && list.at[2] == 100);
    assert_true(number_list_parse("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", 0, 100, &list));
    assert_true(list.n == 16 && list.at[15] == 16);
    assert_false(number_list_parse("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", 0, 100, &list));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_list_several),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
