// SPDX-License-Identifier: Apache-2.0
/* Users' texts about drafts: names of sources, and texts that are refused. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "spec/speculation_choice.h"

static ErrText err;

static void expect(const char *text, uint32_t expected) {
    uint32_t sources = 99;

    assert_int_equal(speculation_parse(text, &sources, &err), 0);
    assert_int_equal(sources, expected);
}

static void test_speculation_choice_sources(void **state) {
    expect("auto", SPECULATION_AUTO);
    expect("ours", SPECULATION_AUTO);
    assert_true(SPECULATION_AUTO >> SPECULATION_MODEL & 1);
    assert_true(SPECULATION_AUTO >> SPECULATION_GRAMMAR & 1);
    expect("off", 0);
    expect("lookup,sam,history,calibration,table,reuse,model,grammar", (1u << _SPECULATION_N) - 1);
    expect("table", 1u << SPECULATION_TABLE);
    for (uint32_t i = 0; i < _SPECULATION_N; i++)
        expect(speculation_source_name((SpeculationSource)i), 1u << i);
}

/* Published policies belong to the laboratory: users cannot choose them. */
static void test_speculation_choice_bad(void **state) {
    static const char *const bad[] = { "",      "sam,",     "sam,off",  "sam,table,sam", "lever,sam", "sam,ours",
                                       "Sam",   "lever ",   "flash-ar", "chain-sd",      "edgellm",   "specinfer",
                                       "lever", "opt-tree", "auto,",    "off,sam" };
    uint32_t sources = 5;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(speculation_parse(bad[i], &sources, &err), SPECULATION_CHOICE_E_TEXT);
    assert_int_equal(sources, 5);
    assert_int_equal(speculation_parse("sam,table,sam", &sources, &err), SPECULATION_CHOICE_E_TEXT);
    assert_non_null(strstr(err.text, "\"sam\" is named twice"));
    assert_int_equal(speculation_parse("Sam", &sources, &err), SPECULATION_CHOICE_E_TEXT);
    assert_non_null(strstr(err.text, "\"Sam\""));
    for (uint32_t i = 0; i < _SPECULATION_N; i++) /* the remedy names all that there is */
        assert_non_null(strstr(err.text, speculation_source_name((SpeculationSource)i)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speculation_choice_sources),
        cmocka_unit_test(test_speculation_choice_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
