// SPDX-License-Identifier: Apache-2.0
#include "engine/drafting.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine_private.h"
#include "spec/draft_share.h"

#define TABLE_SOURCES (1u << SPECULATION_TABLE | 1u << SPECULATION_CALIBRATION)

/* For trees that are not weighed against their time: every row takes the same. */
static const float free_rows[DRAFT_ROWS_MAX] = { [0 ... DRAFT_ROWS_MAX - 1] = 1 };

static PromptRuleChoice choose_prompt(const Drafting *drafting, const SpeculationUser *user, uint32_t prompt_rows,
                                      uint32_t output_max) {
    static const PromptRule nothing_known;
    const SpeculationMemory *memory = &drafting->engine->speculation;
    const PromptRuleCase it = {
        .prompt_rows = prompt_rows,
        .output_max = output_max,
        .row_ms = memory->prompt_row_ms,
        .token_ms = memory->token_ms,
    };

    if (!(speculator_sources(drafting->speculator) & TABLE_SOURCES))
        return (PromptRuleChoice){ .reason = PROMPT_RULE_NO_SOURCE };
    if (drafting->options.no_prompt)
        return (PromptRuleChoice){ .reason = PROMPT_RULE_DECLINED };
    if (drafting->options.always)
        return (PromptRuleChoice){ .reason = PROMPT_RULE_TRIAL };
    return prompt_rule_choose(user ? &user->prompt : &nothing_known, &it);
}

int drafting_new(Drafting **draftingp, Engine *engine, const GenerationOptions *options, uint32_t prompt_rows,
                 uint32_t output_max) {
    const uint32_t rows_max = options->speculation.rows_max;
    const SpeculationUser *user = speculation_memory_user(&engine->speculation, options->user);
    SpeculatorOptions speculator = {
        .sources = options->speculation.sources,
        .nodes_max = (rows_max && rows_max < DRAFT_ROWS_MAX ? rows_max : DRAFT_ROWS_MAX) - 1,
        .chains = options->speculation.chains,
        .stats = user && user->has_stats ? &user->stats : NULL,
    };
    _cleanup_(drafting_freep) Drafting *drafting = calloc(1, sizeof(*drafting));
    int r;

    if (!drafting)
        return -ENOMEM;
    drafting->engine = engine;
    drafting->options = options->speculation;
    drafting->user = options->user;
    if (options->speculation.history) {
        r = history_reader_new(options->speculation.history, &drafting->reader);
        if (r)
            return r;
        speculator.history = (Drafter){ &history_drafter_ops, drafting->reader };
    }
    r = speculator_new(engine_accounts(engine), &speculator, &drafting->speculator);
    if (r)
        return r;
    speculation_control_init(&drafting->control, &engine->speculation.times);
    drafting->prompt = choose_prompt(drafting, user, prompt_rows, output_max);
    *draftingp = steal(&drafting);
    return 0;
}

/* Steps of a generation that always drafts are not those that the control would have chosen: it may have had none
 * without drafts to weigh the others against. */
static void remember(const Drafting *drafting) {
    SpeculationMemory *memory = &drafting->engine->speculation;
    SpeculationUser *user = speculation_memory_user(memory, drafting->user);
    const GenerationReport *report = &drafting->report;

    if (!drafting->options.always) {
        memory->times = drafting->control;
        speculation_memory_measure(&memory->token_ms, (float)drafting->took_ns / 1e6F / (float)drafting->n_output);
    }
    if (report->prompt_head_ns)
        speculation_memory_measure(&memory->prompt_row_ms,
                                   (float)report->prompt_head_ns / 1e6F / (float)report->n_prompt_rows);
    if (!user)
        return;
    user->stats = *speculator_stats(drafting->speculator);
    user->has_stats = true;
    prompt_rule_ended(&user->prompt, drafting->prompt, drafting->n_output,
                      (uint32_t)speculator_counts(drafting->speculator)->accepted_of_prompt);
}

void drafting_free(Drafting *drafting) {
    if (!drafting)
        return;
    if (drafting->n_output)
        remember(drafting);
    speculator_free(drafting->speculator);
    history_reader_free(drafting->reader);
    free(drafting);
}

/* --- the prompt --------------------------------------------------------------------------------------------------- */

bool drafting_wants_prompt(const Drafting *drafting) {
    return prompt_rule_learns(drafting->prompt) && (speculator_sources(drafting->speculator) & TABLE_SOURCES);
}

void drafting_learn_prompt(Drafting *drafting, uint32_t before, uint32_t token, const EngineTops *tops) {
    speculator_observe(drafting->speculator, before, token, tops->tops, tops->n, true);
    drafting->report.n_prompt_rows++;
}

DraftCosts drafting_costs(const Drafting *drafting, StepCompany company) {
    if (drafting->options.always)
        return (DraftCosts){ .ms = free_rows, .n_rows = DRAFT_ROWS_MAX };
    return speculation_control_costs(&drafting->control, company);
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

void drafting_grow(Drafting *drafting, const uint32_t *tokens, size_t n, DraftingLimits limits, StepCompany company) {
    const GenerationSpeculation *options = &drafting->options;
    const uint64_t start_ns = clock_now_ns();
    const uint32_t rows = options->always ? limits.rows : speculation_control_rows(&drafting->control, company);
    const DraftCosts costs = drafting_costs(drafting, company);
    const DraftLimits draft_limits = {
        .nodes_max = (rows < limits.rows ? rows : limits.rows) - 1,
        .depth_max = DRAFT_NODES_MAX,
        .tokens_left = limits.tokens_left,
    };

    speculator_append(drafting->speculator, tokens + drafting->n_text, n - drafting->n_text);
    drafting->n_text = n;
    drafting->company = company;
    drafting->path[0] = 0;
    drafting->n_path = 1;
    drafting->has_ended = false;
    for (uint32_t row = 0; row < DRAFT_ROWS_MAX; row++) /* where no logits will be wanted */
        drafting->tops[row].n = 0;
    speculator_draft(drafting->speculator, draft_limits, costs, &drafting->tree);
    if (options->chains) /* from now on, where there was no memory for a tree */
        draft_share_chain(&drafting->tree);
    drafting->report.draft_ns += clock_now_ns() - start_ns;
}

bool drafting_wants_tops(const Drafting *drafting) {
    return speculator_sources(drafting->speculator) & (TABLE_SOURCES | 1u << SPECULATION_REUSE);
}

bool drafting_row(Drafting *drafting, uint32_t row, const EngineTops *tops) {
    if (tops)
        drafting->tops[row] = *tops;
    else
        drafting->tops[row].n = 0;
    return !drafting->has_ended && drafting->path[drafting->n_path - 1] == row;
}

void drafting_pick(Drafting *drafting, uint32_t token, bool is_end) {
    const uint32_t row = drafting->path[drafting->n_path - 1];
    const int child = is_end ? -1 : draft_tree_child(&drafting->tree, row, token);

    drafting->picked[drafting->n_path - 1] = token;
    if (child < 0)
        drafting->has_ended = true;
    else
        drafting->path[drafting->n_path++] = (uint16_t)child;
}

static void observe_rows(Drafting *drafting, uint32_t before) {
    const DraftTree *tree = &drafting->tree;

    for (uint32_t row = 0; row < tree->n_rows; row++)
        speculator_observe(drafting->speculator, row ? tree->tokens[tree->parents[row]] : before, tree->tokens[row],
                           drafting->tops[row].tops, drafting->tops[row].n, false);
}

void drafting_learn(Drafting *drafting, uint32_t before, uint32_t n_tokens) {
    const DraftTree *tree = &drafting->tree;
    GenerationReport *report = &drafting->report;
    const uint64_t start_ns = clock_now_ns();
    uint32_t accepted[DRAFT_ROWS_MAX], tops[DRAFT_ROWS_MAX];
    bool has_tops = true;

    assert(drafting->has_ended && n_tokens <= drafting->n_path);
    for (uint32_t row = 0; row < tree->n_rows; row++) {
        has_tops = has_tops && drafting->tops[row].n;
        tops[row] = has_tops ? drafting->tops[row].tops[0].token : 0;
    }
    for (uint32_t i = 1; i < drafting->n_path; i++)
        accepted[i - 1] = drafting->path[i];
    observe_rows(drafting, before);
    if (tree->n_rows > 1) {
        speculator_verified(drafting->speculator, tree, accepted, drafting->n_path - 1,
                            drafting->picked[drafting->n_path - 1], has_tops ? tops : NULL);
        report->n_verifications++;
    }
    drafting->n_emitted = n_tokens;
    report->n_steps++;
    report->n_rows += tree->n_rows;
    report->draft_ns += clock_now_ns() - start_ns;
}

void drafting_took(Drafting *drafting, uint64_t ns) {
    if (ns) {
        drafting->n_output += drafting->n_emitted;
        drafting->took_ns += ns;
    }
    speculation_control_took(&drafting->control, drafting->tree.n_rows, drafting->company, drafting->n_emitted,
                             (float)ns / 1e6f);
}
