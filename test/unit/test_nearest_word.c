// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/nearest_word.h"

static void test_nearest_word(void **state) {
    static const char *const names[] = { "generate", "chat", "status", "ping", "model" };

    assert_string_equal(nearest_word("genrate", names, 5), "generate");
    assert_string_equal(nearest_word("sattus", names, 5), "status"); /* two letters swapped */
    assert_string_equal(nearest_word("gen", names, 5), "generate");  /* its beginning */
    assert_string_equal(nearest_word("pin", names, 5), "ping");
    assert_null(nearest_word("xyzzy", names, 5));
    assert_null(nearest_word("a-word-that-is-far-longer-than-any-option-can-be", names, 5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
