// SPDX-License-Identifier: Apache-2.0
/* Policies of `coordgen-bench flash`: their names, and what they ask of a generation. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench/speculation/flash_policy.h"

static uint32_t bit_of(const char *name) {
    for (uint32_t i = 0; i < FLASH_POLICIES_MAX; i++)
        if (!strcmp(flash_policies[i].name, name))
            return 1u << i;
    fail_msg("%s", name);
    return 0;
}

/* Plain decoding is in every run, or there is nothing to compare with. */
static void test_flash_policy_parse(void **state) {
    static const char *const wrong[] = { "", "ours,", "our", "oursx" };
    uint32_t policies = 77;
    ErrText err;

    assert_int_equal(flash_policies_parse("ours", &policies, &err), 0);
    assert_int_equal(policies, 1u << FLASH_AR | bit_of("ours"));
    assert_int_equal(flash_policies_parse("lever,flash-ar,chain-sd", &policies, &err), 0);
    assert_int_equal(policies, 1u << FLASH_AR | bit_of("lever") | bit_of("chain-sd"));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(flash_policies_parse(wrong[i], &policies, &err), -EINVAL);
        assert_non_null(strstr(err.text, "chain-sd, edgellm, specinfer, opt-tree, lever, ours, auto, retrieval"));
    }
}

/* A rule's name is the baseline's. Policies that weigh no times run as published; only auto, and its form without a
 * model, are bounded. */
static void test_flash_policy_labs(void **state) {
    for (size_t i = 0; i < FLASH_POLICIES_MAX; i++) {
        const FlashPolicy *policy = &flash_policies[i];
        const SpecLab *lab = &policy->lab;
        const bool weighs = !strcmp(policy->name, "lever") || !strcmp(policy->name, "ours"),
                   is_retrieval = !strcmp(policy->name, "retrieval"),
                   is_auto = is_retrieval || !strcmp(policy->name, "auto");

        assert_int_equal(lab->no_bounds, weighs);
        assert_int_equal(lab->always, i != FLASH_AR && !weighs && !is_auto);
        if (i == FLASH_AR)
            assert_int_equal(policy->sources, 0);
        else if (!lab->policy)
            assert_int_equal(policy->sources,
                             is_retrieval ? SPECULATION_AUTO & ~(1u << SPECULATION_MODEL) : SPECULATION_AUTO);
        else
            assert_int_equal(policy->sources, 1u << SPECULATION_MODEL);
        if (lab->policy)
            assert_string_equal(policy->name, lab->policy->name);
        else
            assert_true(is_auto || i == FLASH_OURS || i == FLASH_AR);
        assert_true(!lab->chains && !lab->no_prompt);
    }
    assert_string_equal(flash_policies[FLASH_OURS].name, "ours");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flash_policy_parse),
        cmocka_unit_test(test_flash_policy_labs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
