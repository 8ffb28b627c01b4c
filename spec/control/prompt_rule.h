// SPDX-License-Identifier: Apache-2.0
/* Decides whether the output head runs at the rows of a prompt, from which table and calibration learn (CoordGen 3.3).
 * The head takes time before the first token, and its worth depends on the user's texts: the rule goes by what learning
 * has brought. */
#ifndef COORDGEN_SPEC_PROMPT_RULE_H
#define COORDGEN_SPEC_PROMPT_RULE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum PromptRuleReason {
    PROMPT_RULE_NO_SOURCE, /* no source is on that learns from a prompt */
    PROMPT_RULE_DECLINED,  /* the request does not want it */
    PROMPT_RULE_PAYS,
    PROMPT_RULE_LOSES,
    PROMPT_RULE_TRIAL, /* learning lost so far and is tried again, or nothing is known yet */
} PromptRuleReason;

/* What learning brought one user of one model; embedded; zero: nothing is known. Sums over generations, old ones
 * counting less. */
typedef struct PromptRule {
    float brought;      /* tokens that only what was learned from a prompt had proposed, and that became output */
    float output;       /* tokens of the generations that had learned from their prompt */
    float expected;     /* output tokens of a generation; 0: none has ended */
    uint32_t n_refused; /* generations since the last one that learned */
} PromptRule;

/* What a generation is about to do, and what is known of the machine. */
typedef struct PromptRuleCase {
    uint32_t prompt_rows; /* rows that the head would run at */
    uint32_t output_max;
    float row_ms;   /* time of the head for one row; 0: not known */
    float token_ms; /* time of a decoded token; 0: not known */
    float prior;    /* tokens brought per token of output while nothing is known; 0: a tenth */
} PromptRuleCase;

typedef struct PromptRuleChoice {
    PromptRuleReason reason;
    float cost_ms, gain_ms; /* expected; 0: not known */
} PromptRuleChoice;

PromptRuleChoice prompt_rule_choose(const PromptRule *rule, const PromptRuleCase *it);
/* Returns the prior for a draft model, which reads the prompt by the same rule. pass_ms: time of its pass, 0: not
 * known; token_ms: time of a token of the target; is_streamed: the target reads layers in every step. */
float prompt_rule_model_prior(float pass_ms, float token_ms, bool is_streamed);
/* Whether the choice is to learn from the prompt. */
static inline int prompt_rule_learns(PromptRuleChoice choice) {
    return choice.reason >= PROMPT_RULE_PAYS && choice.reason != PROMPT_RULE_LOSES;
}
/* Learns from a generation that has ended: its tokens of output, and those that only its prompt had proposed. */
void prompt_rule_ended(PromptRule *rule, PromptRuleChoice choice, uint32_t output, uint32_t brought);

#endif
