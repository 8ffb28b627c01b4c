// SPDX-License-Identifier: Apache-2.0
#include "spec/control/prompt_rule.h"

#include "base/min_max.h"

static const float kept = 0.8F;       /* share of the sums that each ended generation keeps */
static const float prior_rate = 0.1F; /* tokens brought per token of output, where nothing is known */
static const float prior_output = 60; /* weight of the prior in tokens: a few answers outweigh it */
/* Tokens that a draft model brings per token of output, if its passes take no time. */
static const float model_rate = 0.5F;
static const float model_passes = 2; /* passes per token that a draft model brings: one for the token, one in vain */
static const float expected_first = 128;   /* tokens expected of an answer before any has ended */
static const float expected_weight = 0.2F; /* weight of the last generation in the average */

enum {
    REFUSED_MAX = 16,     /* generations without learning before one is tried again */
    TRIAL_ROWS = 10,      /* rows of the prompt per expected token of output, above which nothing is tried */
    TRIAL_COST_FACTOR = 8 /* cost, as a multiple of the expected gain, above which nothing is tried */
};

float prompt_rule_model_prior(float pass_ms, float token_ms, bool is_streamed) {
    float left = is_streamed ? 1 : 0;

    if (pass_ms > 0 && token_ms > 0)
        left = 1 - model_passes * pass_ms / token_ms;
    return prior_rate + model_rate * MAX(left, 0);
}

/**
 * prompt_rule_choose() - weigh what learning costs against what it will bring
 *
 * The gain is the tokens that a token of output has brought so far, times the tokens that are expected, times the time
 * of a token. What is not known yet is learned by trying, if the prompt is not long.
 */
PromptRuleChoice prompt_rule_choose(const PromptRule *rule, const PromptRuleCase *it) {
    const float prior = it->prior > 0 ? it->prior : prior_rate;
    const float rate = (rule->brought + prior * prior_output) / (rule->output + prior_output);
    float expected = rule->expected > 0 ? rule->expected : expected_first;
    PromptRuleChoice choice = { .reason = PROMPT_RULE_TRIAL };

    expected = MIN(expected, (float)it->output_max);
    choice.cost_ms = it->row_ms * (float)it->prompt_rows;
    choice.gain_ms = rate * expected * it->token_ms;
    if (!(it->row_ms > 0) || !(it->token_ms > 0))
        choice.reason = (float)it->prompt_rows <= TRIAL_ROWS * expected * prior / prior_rate ? PROMPT_RULE_TRIAL
                                                                                             : PROMPT_RULE_LOSES;
    else if (rule->n_refused < REFUSED_MAX || choice.cost_ms > TRIAL_COST_FACTOR * choice.gain_ms)
        choice.reason = choice.gain_ms >= choice.cost_ms ? PROMPT_RULE_PAYS : PROMPT_RULE_LOSES;
    return choice;
}

void prompt_rule_ended(PromptRule *rule, PromptRuleChoice choice, uint32_t output, uint32_t brought) {
    rule->expected += rule->expected > 0 ? expected_weight * ((float)output - rule->expected) : (float)output;
    if (choice.reason == PROMPT_RULE_LOSES)
        rule->n_refused++;
    if (!prompt_rule_learns(choice))
        return;
    rule->n_refused = 0;
    rule->brought = kept * rule->brought + (float)brought;
    rule->output = kept * rule->output + (float)output;
}
