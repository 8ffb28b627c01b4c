// SPDX-License-Identifier: Apache-2.0
/* Whole numbers of coordgen-bench's options, alone and in lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench/number_list.h"

static void test_number_list_one(void **state) {
    static const char *const wrong[] = { "", "4", "11", "7x", "7,8", "-7", "99999999999999999999" };
    size_t value = 3;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_false(number_parse(wrong[i], 5, 10, &value) || value != 3);
    assert_true(number_parse("5", 5, 10, &value) && value == 5);
    assert_true(number_parse("10", 5, 10, &value) && value == 10);
}

static void test_number_list_several(void **state) {
    static const char *const wrong[] = { "", ",", "1,", "1,,2", "1,101", "1 ,2", "1;2" };
    size_t values[NUMBER_LIST_MAX], n;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_false(number_list_parse(wrong[i], 0, 100, values, &n));
    assert_true(number_list_parse("7", 0, 100, values, &n));
    assert_true(n == 1 && values[0] == 7);
    assert_true(number_list_parse("0,25,100", 0, 100, values, &n));
    assert_true(n == 3 && values[0] == 0 && values[1] == 25 && values[2] == 100);
    assert_true(number_list_parse("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", 0, 100, values, &n));
    assert_true(n == 16 && values[15] == 16);
    assert_false(number_list_parse("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", 0, 100, values, &n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_list_one),
        cmocka_unit_test(test_number_list_several),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
