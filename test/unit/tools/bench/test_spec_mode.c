// SPDX-License-Identifier: Apache-2.0
/* Modes of `coordgen-bench spec`: their names, and what they ask of a generation. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench/speculation/spec_mode.h"

static const SpecMode *mode_of(const char *name) {
    for (size_t i = 0; i < SPEC_MODES_MAX; i++)
        if (!strcmp(spec_modes[i].name, name))
            return &spec_modes[i];
    fail_msg("%s", name);
    return NULL;
}

/* Plain decoding is in every run, or there is nothing to compare with. */
static void test_spec_mode_parse(void **state) {
    uint32_t modes = 77;
    ErrText err;

    assert_int_equal(spec_modes_parse("auto", &modes, &err), 0);
    assert_int_equal(modes, 1u << SPEC_PLAIN | 1u << (mode_of("auto") - spec_modes));
    assert_int_equal(spec_modes_parse("pld,plain,sam", &modes, &err), 0);
    assert_int_equal(modes,
                     1u << SPEC_PLAIN | 1u << (mode_of("pld") - spec_modes) | 1u << (mode_of("sam") - spec_modes));
    for (size_t i = 0; i < 4; i++) {
        static const char *const wrong[] = { "", "pld,", "sa", "samx" };

        assert_int_equal(spec_modes_parse(wrong[i], &modes, &err), -EINVAL);
        assert_non_null(strstr(err.text, "plain, pld, sam, calibration, table, reuse, history, auto, "
                                         "no-grammar, grammar, free"));
    }
}

/* Baselines run as published by default; each later mode has one source more. */
static void test_spec_mode_speculation(void **state) {
    const SpecSettings none = { 0 }, controlled = { .controlled = true }, always = { .always = true, .rows_max = 7 };
    static const char *const ladder[] = { "sam", "calibration", "table", "reuse", "history" };
    SpecLab lab;
    GenerationSpeculation speculation = spec_mode_speculation(mode_of("plain"), &none, &lab);

    assert_int_equal(speculation.sources, 0);
    speculation = spec_mode_speculation(mode_of("sam"), &none, &lab);
    assert_true(lab.always && lab.chains && !speculation.rows_max);
    speculation = spec_mode_speculation(mode_of("pld"), &controlled, &lab);
    assert_true(!lab.always && lab.chains);
    assert_int_equal(speculation.sources, 1u << SPECULATION_LOOKUP);
    speculation = spec_mode_speculation(mode_of("auto"), &none, &lab);
    assert_true(!lab.always && !lab.chains && !speculation.rows_max);
    assert_int_equal(speculation.sources, SPECULATION_AUTO);
    speculation = spec_mode_speculation(mode_of("auto"), &always, &lab);
    assert_true(lab.always && speculation.rows_max == 7);
    speculation = spec_mode_speculation(mode_of("no-grammar"), &none, &lab);
    assert_int_equal(speculation.sources | 1u << SPECULATION_GRAMMAR, SPECULATION_AUTO);
    assert_false(speculation.sources >> SPECULATION_GRAMMAR & 1);
    assert_true(mode_of("free")->is_free && !mode_of("free")->sources); /* plain decoding, but for the schemas */
    assert_int_equal(spec_modes_default() >> (mode_of("auto") - spec_modes), 1);
    for (size_t i = 1; i < 5; i++) {
        const uint32_t before = mode_of(ladder[i - 1])->sources, more = mode_of(ladder[i])->sources;

        assert_int_equal(before & more, before);
        assert_int_equal(__builtin_popcount(more), __builtin_popcount(before) + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_mode_parse),
        cmocka_unit_test(test_spec_mode_speculation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
