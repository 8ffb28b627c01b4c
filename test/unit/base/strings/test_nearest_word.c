// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strings/nearest_word.h"

static void test_nearest_word(void **state) {
    static const char *const names[] = { "generate", "chat", "status", "ping", "model" };

    assert_string_equal(nearest_word("genrate", names, 5), "generate");
    assert_string_equal(nearest_word("sattus", names, 5), "status"); /* two letters swapped */
    assert_string_equal(nearest_word("gen", names, 5), "generate");  /* its prefix */
    assert_string_equal(nearest_word("pin", names, 5), "ping");
    assert_string_equal(nearest_word("modle", names, 5), "model");
    assert_null(nearest_word("xyzzy", names, 5));
    assert_null(nearest_word("", names, 5));
    assert_null(nearest_word("a-word-that-is-far-longer-than-any-option-can-be", names, 5));
}

/* Names of models are long, and users often type the front of one. */
static void test_nearest_word_of_models(void **state) {
    static const char *const names[] = { "qwen2.5-coder-1.5b-instruct-q8_0-with-a-name-of-some-length", "smollm2-135m",
                                         "gemma3-270m" };
    static char endless[1000];

    assert_string_equal(nearest_word("smolm2", names, 3), "smollm2-135m");
    assert_string_equal(nearest_word("smollm2", names, 3), "smollm2-135m");
    assert_string_equal(nearest_word("smollm2-153m", names, 3), "smollm2-135m");
    assert_string_equal(nearest_word("gema3", names, 3), "gemma3-270m");
    assert_string_equal(nearest_word("qwen25-coder", names, 3), names[0]);
    assert_null(nearest_word("llama3", names, 3));
    assert_null(nearest_word("gpt", names, 3));
    for (size_t i = 0; i + 1 < sizeof(endless); i++)
        endless[i] = 'a';
    assert_null(nearest_word(endless, names, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_word),
        cmocka_unit_test(test_nearest_word_of_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
