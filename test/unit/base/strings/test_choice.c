// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strings/choice.h"

typedef enum Fruit {
    APPLE,
    PEAR = 7,
    QUINCE,
} Fruit;

static const Choice fruits[] = { { "pear", PEAR }, { "apple", APPLE }, { "quince", QUINCE }, { NULL, 0 } };
static const Choice none[] = { { NULL, 0 } };

static void test_choice_names(void **state) {
    Fruit fruit = QUINCE;

    assert_string_equal(choice_name(fruits, PEAR), "pear");
    assert_string_equal(choice_name(fruits, APPLE), "apple");
    assert_null(choice_name(fruits, 1));
    assert_null(choice_name(none, 0));
    assert_true(choice_set(fruits, "apple", &fruit));
    assert_int_equal(fruit, APPLE);
    assert_true(choice_set(fruits, "pear", &fruit));
    assert_int_equal(fruit, PEAR);
    assert_false(choice_set(fruits, "", &fruit));
    assert_false(choice_set(fruits, "Apple", &fruit));
    assert_false(choice_set(fruits, "pears", &fruit));
    assert_false(choice_set(none, "apple", &fruit));
    assert_int_equal(fruit, PEAR);
}

static void test_choice_list(void **state) {
    char text[32], small[12];

    choice_list(fruits, " or ", text, sizeof(text));
    assert_string_equal(text, "pear, apple or quince");
    choice_list(fruits, ", ", text, sizeof(text));
    assert_string_equal(text, "pear, apple, quince");
    choice_list(fruits + 2, " or ", text, sizeof(text));
    assert_string_equal(text, "quince");
    choice_list(fruits, " or ", small, sizeof(small));
    assert_string_equal(small, "pear, apple");
    choice_list(none, " or ", text, sizeof(text));
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice_names),
        cmocka_unit_test(test_choice_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
