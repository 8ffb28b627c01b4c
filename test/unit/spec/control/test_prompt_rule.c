// SPDX-License-Identifier: Apache-2.0
/* Decision to learn from a prompt: the unknown is tried, what loses stops and is tried again, what pays goes on. What
 * generations leave to later ones stays with their user. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "spec/speculation_memory.h"

static const PromptRuleCase known = { .prompt_rows = 1000, .output_max = 500, .row_ms = 0.1F, .token_ms = 20 };

static void test_prompt_rule_unknown(void **state) {
    const PromptRule rule = { 0 };
    PromptRuleCase it = known;
    PromptRuleChoice choice;

    it.row_ms = 0;
    choice = prompt_rule_choose(&rule, &it);
    assert_int_equal(choice.reason, PROMPT_RULE_TRIAL);
    assert_true(prompt_rule_learns(choice));
    it.prompt_rows = 5000; /* too long for a trial */
    assert_int_equal(prompt_rule_choose(&rule, &it).reason, PROMPT_RULE_LOSES);
    it = known;
    choice = prompt_rule_choose(&rule, &it);
    assert_int_equal(choice.reason, PROMPT_RULE_PAYS); /* 100 ms, against a tenth of 128 tokens of 20 ms */
    assert_true(choice.cost_ms > 99 && choice.cost_ms < 101 && choice.gain_ms > 200 && choice.gain_ms < 300);
    it.output_max = 10;
    choice = prompt_rule_choose(&rule, &it);
    assert_int_equal(choice.reason, PROMPT_RULE_LOSES); /* no answer of ten tokens pays */
    assert_false(prompt_rule_learns(choice));
}

/* A draft model is worth more, the less its passes take beside the target's tokens. Where the target reads its layers
 * in every step, that holds before any time is known. What the model has brought counts for more in the end. */
static void test_prompt_rule_model(void **state) {
    const float free = prompt_rule_model_prior(1, 1000, false), third = prompt_rule_model_prior(20, 60, false),
                dear = prompt_rule_model_prior(60, 60, true);
    PromptRuleCase it = { .prompt_rows = 1000, .output_max = 48, .row_ms = 10, .token_ms = 500, .prior = free };
    PromptRule rule = { 0 };

    assert_true(free > 0.55F && free <= 0.6F);
    assert_true(third > dear && third < free);
    assert_true(dear > 0.09F && dear < 0.11F);
    assert_true(prompt_rule_model_prior(0, 0, true) > 0.5F && prompt_rule_model_prior(0, 60, false) < 0.11F);
    assert_int_equal(prompt_rule_choose(&rule, &it).reason, PROMPT_RULE_PAYS);
    rule = (PromptRule){ .output = 300, .brought = 10, .expected = 48 };
    assert_int_equal(prompt_rule_choose(&rule, &it).reason, PROMPT_RULE_LOSES);
    rule = (PromptRule){ 0 };
    it.prior = dear;
    assert_int_equal(prompt_rule_choose(&rule, &it).reason, PROMPT_RULE_LOSES);
    it.row_ms = 0; /* twenty rows for each token of output */
    assert_int_equal(prompt_rule_choose(&rule, &it).reason, PROMPT_RULE_LOSES);
    it.prior = free;
    assert_int_equal(prompt_rule_choose(&rule, &it).reason, PROMPT_RULE_TRIAL);
}

/* Ends n generations that bring `brought` of 100 tokens each. Returns how many of them learned. */
static uint32_t run(PromptRule *rule, uint32_t n, uint32_t brought) {
    uint32_t n_learned = 0;

    for (uint32_t i = 0; i < n; i++) {
        const PromptRuleChoice choice = prompt_rule_choose(rule, &known);
        const bool learns = prompt_rule_learns(choice);

        prompt_rule_ended(rule, choice, 100, learns ? brought : 0);
        n_learned += learns;
    }
    return n_learned;
}

static void test_prompt_rule_follows(void **state) {
    PromptRule rule = { 0 };
    PromptRuleCase dear = known;
    uint32_t n;

    assert_int_equal(run(&rule, 50, 20), 50);
    n = run(&rule, 170, 0); /* some until the loss is seen, then one of 17 */
    assert_true(n >= 10 && n < 30);
    n = run(&rule, 100, 20);
    assert_true(n > 80);
    rule.n_refused = 100;
    assert_int_equal(prompt_rule_choose(&rule, &known).reason, PROMPT_RULE_TRIAL);
    dear.prompt_rows *= 100;
    assert_int_equal(prompt_rule_choose(&rule, &dear).reason, PROMPT_RULE_LOSES);
}

static void test_speculation_memory_users(void **state) {
    AccountTable accounts;
    SpeculationMemory memory;
    SpeculationUser *user;

    account_table_init(&accounts);
    speculation_memory_init(&memory, &accounts);
    for (uint64_t uid = 0; uid < 2 * SPECULATION_USERS_MAX; uid++) {
        user = speculation_memory_user(&memory, 1000 + uid);
        assert_int_equal(user->user, 1000 + uid);
        assert_false(user->has_stats);
        assert_true(user->prompt.expected == 0);
        user->has_stats = true;
        user->prompt.expected = (float)uid;
        assert_true(speculation_memory_user(&memory, 1000)->has_stats || !uid); /* in use, so it stays */
        speculation_memory_user(&memory, 1000)->has_stats = true;
    }
    for (uint64_t uid = SPECULATION_USERS_MAX + 1; uid < 2 * SPECULATION_USERS_MAX; uid++) {
        user = speculation_memory_user(&memory, 1000 + uid);
        assert_true(user->has_stats && user->prompt.expected == (float)uid);
    }
    assert_false(speculation_memory_user(&memory, 1001)->has_stats);
    assert_int_equal(accounts.used_bytes[ACCOUNT_DRAFTDB], SPECULATION_USERS_MAX * sizeof(*user));
    speculation_memory_deinit(&memory);
    assert_int_equal(accounts.used_bytes[ACCOUNT_DRAFTDB], 0);
}

/* A user that the account has no room for is not remembered; the users that are there stay. */
static void test_speculation_memory_limit(void **state) {
    AccountTable accounts;
    SpeculationMemory memory;

    account_table_init(&accounts);
    accounts.limit_bytes[ACCOUNT_DRAFTDB] = sizeof(SpeculationUser);
    speculation_memory_init(&memory, &accounts);
    assert_non_null(speculation_memory_user(&memory, 1000));
    assert_null(speculation_memory_user(&memory, 1001));
    assert_int_equal(speculation_memory_user(&memory, 1000)->user, 1000);
    speculation_memory_deinit(&memory);
    assert_int_equal(accounts.used_bytes[ACCOUNT_DRAFTDB], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_rule_unknown),      cmocka_unit_test(test_prompt_rule_model),
        cmocka_unit_test(test_prompt_rule_follows),      cmocka_unit_test(test_speculation_memory_users),
        cmocka_unit_test(test_speculation_memory_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
