// SPDX-License-Identifier: Apache-2.0
/* What users say of drafts: sources, policies, and what is neither. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "spec/speculation_choice.h"

static SpeculationChoice choice;
static ErrText err;

static void expect(const char *text, uint32_t sources, SpeculationPolicy policy) {
    choice = (SpeculationChoice){ 99, _POLICY_N };
    assert_int_equal(speculation_parse(text, &choice, &err), 0);
    assert_int_equal(choice.sources, sources);
    assert_int_equal(choice.policy, policy);
}

static void test_speculation_choice_sources(void **state) {
    expect("auto", SPECULATION_AUTO, POLICY_OURS);
    assert_true(SPECULATION_AUTO >> SPECULATION_MODEL & 1);
    expect("off", 0, POLICY_OURS);
    expect("lookup,sam,history,calibration,table,reuse,model", (1u << _SPECULATION_N) - 1, POLICY_OURS);
    expect("table", 1u << SPECULATION_TABLE, POLICY_OURS);
    for (uint32_t i = 0; i < _SPECULATION_N; i++)
        expect(speculation_source_name((SpeculationSource)i), 1u << i, POLICY_OURS);
}

/* A baseline has the draft model alone, as it was published. */
static void test_speculation_choice_policies(void **state) {
    expect("ours", SPECULATION_AUTO, POLICY_OURS);
    expect("flash-ar", 0, POLICY_FLASH_AR);
    expect("chain-sd", 1u << SPECULATION_MODEL, POLICY_CHAIN_SD);
    expect("edgellm", 1u << SPECULATION_MODEL, POLICY_EDGELLM);
    expect("specinfer", 1u << SPECULATION_MODEL, POLICY_SPECINFER);
    expect("opt-tree", 1u << SPECULATION_MODEL, POLICY_OPT_TREE);
    expect("lever", 1u << SPECULATION_MODEL, POLICY_LEVER);
    for (uint32_t i = 0; i < _POLICY_N; i++) {
        assert_int_equal(speculation_parse(speculation_policy_name((SpeculationPolicy)i), &choice, &err), 0);
        assert_int_equal(choice.policy, i);
    }
}

static void test_speculation_choice_bad(void **state) {
    static const char *const bad[] = {
        "", "sam,", "sam,off", "sam,table,sam", "lever,sam", "sam,ours", "Sam", "lever "
    };

    choice = (SpeculationChoice){ 5, POLICY_LEVER };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(speculation_parse(bad[i], &choice, &err), SPECULATION_CHOICE_E_TEXT);
    assert_int_equal(choice.sources, 5);
    assert_int_equal(choice.policy, POLICY_LEVER);
    assert_int_equal(speculation_parse("sam,table,sam", &choice, &err), SPECULATION_CHOICE_E_TEXT);
    assert_non_null(strstr(err.text, "\"sam\" is named twice"));
    assert_int_equal(speculation_parse("Sam", &choice, &err), SPECULATION_CHOICE_E_TEXT);
    assert_non_null(strstr(err.text, "\"Sam\""));
    for (uint32_t i = 0; i < _SPECULATION_N; i++) /* the remedy names all that there is */
        assert_non_null(strstr(err.text, speculation_source_name((SpeculationSource)i)));
    for (uint32_t i = 0; i < _POLICY_N; i++)
        assert_non_null(strstr(err.text, speculation_policy_name((SpeculationPolicy)i)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speculation_choice_sources),
        cmocka_unit_test(test_speculation_choice_policies),
        cmocka_unit_test(test_speculation_choice_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
