// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/drafting_state.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "engine/core/engine_state.h"
#include "spec/tree/draft_share.h"

#define TABLE_SOURCES (1u << SPECULATION_TABLE | 1u << SPECULATION_CALIBRATION)

enum {
    TOP_OUTPUTS_PART = 8,        /* likely tokens are looked for in the first eighth of the vocabulary */
    TOP_OUTPUTS_MIN = 16 * 1024, /* but among so many at least */
};

/* Durations for trees that are not weighed against their time: every row takes the same. */
static const float free_rows[DRAFT_ROWS_MAX] = { [0 ... DRAFT_ROWS_MAX - 1] = 1 };

static PromptRuleChoice choose_prompt(const Drafting *drafting, const SpeculationUser *user,
                                      const DraftingOptions *text) {
    static const PromptRule nothing_known;
    const SpeculationMemory *memory = &drafting->engine->speculation;
    const PromptRuleCase it = {
        .prompt_rows = text->prompt_rows,
        .output_max = text->output_max,
        .row_ms = memory->prompt_row_ms,
        .token_ms = memory->token_ms,
    };

    if (!(speculator_sources(drafting->speculator) & TABLE_SOURCES))
        return (PromptRuleChoice){ .reason = PROMPT_RULE_NO_SOURCE };
    if (drafting->lab->no_prompt)
        return (PromptRuleChoice){ .reason = PROMPT_RULE_DECLINED };
    if (drafting->lab->always)
        return (PromptRuleChoice){ .reason = PROMPT_RULE_TRIAL };
    return prompt_rule_choose(user ? &user->prompt : &nothing_known, &it);
}

/* Steps that trying the model may lose: a model's own layers guess worse than a draft model. */
static uint32_t model_loss_steps(const Drafting *drafting) {
    const DraftModel *model = &drafting->options.model;
    const bool is_self = model->ops && model->ops->has_text,
               is_alone = speculator_sources(drafting->speculator) == 1u << SPECULATION_MODEL;

    return is_self && !is_alone ? MODEL_LOSS_STEPS_SELF : MODEL_LOSS_STEPS;
}

/* Chooses whether the draft model reads the prompt: a draft model that does not cannot draft. A baseline has no other
 * source. A model that has the text without reading it still costs what trying it may lose. */
static PromptRuleChoice choose_model(const Drafting *drafting, const SpeculationUser *user, uint32_t output_max) {
    static const PromptRule nothing_known;
    const SpeculationMemory *memory = &drafting->engine->speculation;
    const DraftModel *model = &drafting->options.model;
    const bool has_text = model->ops && model->ops->has_text; /* then it has nothing to read, and passes to lose */
    const PromptRuleCase it = {
        .prompt_rows = has_text ? model_loss_steps(drafting) : (uint32_t)drafting->n_prompt,
        .output_max = output_max,
        .row_ms = has_text ? memory->token_ms : memory->model_row_ms,
        .token_ms = memory->token_ms,
        .prior = has_text
                     ? 0
                     : prompt_rule_model_prior(model->ops ? model->ops->cost_ms(model->self, 1) : 0, memory->token_ms,
                                               engine_info(drafting->engine)->weights.n_streamed_layers),
    };

    if (!(speculator_sources(drafting->speculator) >> SPECULATION_MODEL & 1))
        return (PromptRuleChoice){ .reason = PROMPT_RULE_NO_SOURCE };
    if (drafting->lab->always || drafting->lab->no_bounds || drafting->lab->policy)
        return (PromptRuleChoice){ .reason = PROMPT_RULE_TRIAL };
    return prompt_rule_choose(user ? &user->model : &nothing_known, &it);
}

/* --- the draft model, with a clock -------------------------------------------------------------------------------- */

static int timed_follow(void *self, const uint32_t *text, size_t n) {
    Drafting *drafting = self;
    const uint64_t start_ns = clock_now_ns();
    const int r = drafting->options.model.ops->follow(drafting->options.model.self, text, n);

    drafting->report->model_ns += clock_now_ns() - start_ns;
    return r;
}

static int timed_expand(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    Drafting *drafting = self;
    const uint64_t start_ns = clock_now_ns();
    const int r = drafting->options.model.ops->expand(drafting->options.model.self, rows, n, tops);

    drafting->report->model_ns += clock_now_ns() - start_ns;
    drafting->report->n_model_passes++;
    drafting->report->n_model_rows += n;
    return r;
}

static float timed_cost_ms(const void *self, uint32_t n_rows) {
    const Drafting *drafting = self;

    return drafting->options.model.ops->cost_ms(drafting->options.model.self, n_rows);
}

static DraftModel timed_model(Drafting *drafting) {
    const DraftModelOps *ops = drafting->options.model.ops;

    if (!ops)
        return (DraftModel){ 0 };
    drafting->timed_ops = (DraftModelOps){ timed_follow, timed_expand, timed_cost_ms, ops->rows_max, ops->has_text };
    return (DraftModel){ &drafting->timed_ops, drafting };
}

int drafting_new(Drafting **draftingp, Engine *engine, const DraftingOptions *options) {
    const GenerationSpeculation *speculation = &options->speculation;
    const uint32_t rows_max = speculation->rows_max;
    const SpeculationUser *user = speculation_memory_user(&engine->speculation, options->user);
    SpeculatorOptions speculator = {
        .sources = speculation->sources,
        .nodes_max = (rows_max && rows_max < DRAFT_ROWS_MAX ? rows_max : DRAFT_ROWS_MAX) - 1,
        .chains = options->chains,
        .stats = user && user->has_stats ? &user->stats : NULL,
        .history = speculation->history,
        .lab = speculation->lab,
        .report = options->report,
    };
    _cleanup_(drafting_freep) Drafting *drafting = calloc(1, sizeof(*drafting));
    int r;

    if (!drafting)
        return -ENOMEM;
    drafting->engine = engine;
    drafting->report = options->report;
    drafting->options = *speculation;
    drafting->constraint = options->constraint;
    drafting->lab = spec_lab_of(speculation->lab);
    drafting->chains = options->chains;
    drafting->user = options->user;
    drafting->n_prompt = options->n_prompt;
    speculator.model = timed_model(drafting);
    speculator.grammar = draft_constraint_grammar(&drafting->constraint);
    r = speculator_new(engine_accounts(engine), &speculator, &drafting->speculator);
    if (r)
        return r;
    speculation_control_init(&drafting->control, &engine->speculation.times);
    model_control_init(&drafting->model_control, (float)model_loss_steps(drafting));
    drafting->hook = drafting->lab->hook ? drafting->lab->hook->begin(drafting->lab->hook_arg) : NULL;
    drafting->report->prompt = choose_prompt(drafting, user, options);
    drafting->report->model = choose_model(drafting, user, options->output_max);
    *draftingp = steal(&drafting);
    return 0;
}

/* Leaves what was learned to later generations. Durations of a generation that always drafts are left out: its steps
 * are not those that the control would have chosen, and it may have had none without drafts. */
static void remember(const Drafting *drafting) {
    SpeculationMemory *memory = &drafting->engine->speculation;
    SpeculationUser *user = speculation_memory_user(memory, drafting->user);
    const DraftReport *report = drafting->report;

    if (!drafting->lab->always) {
        memory->times = drafting->control;
        speculation_memory_measure(&memory->token_ms, (float)drafting->took_ns / 1e6F / (float)drafting->n_output);
    }
    if (report->prompt_head_ns)
        speculation_memory_measure(&memory->prompt_row_ms,
                                   (float)report->prompt_head_ns / 1e6F / (float)report->n_prompt_rows);
    if (drafting->n_model_prompt)
        speculation_memory_measure(&memory->model_row_ms,
                                   (float)drafting->model_prompt_ns / 1e6F / (float)drafting->n_model_prompt);
    if (!user)
        return;
    if (report->model.reason != PROMPT_RULE_NO_SOURCE && !drafting->lab->policy)
        prompt_rule_ended(&user->model, report->model, drafting->n_output,
                          drafting->model_control.gained > 0 ? (uint32_t)drafting->model_control.gained : 0);
    user->stats = *speculator_stats(drafting->speculator);
    user->has_stats = true;
    prompt_rule_ended(&user->prompt, report->prompt, drafting->n_output, (uint32_t)report->accepted_of_prompt);
}

void drafting_free(Drafting *drafting) {
    if (!drafting)
        return;
    if (drafting->n_output)
        remember(drafting);
    if (drafting->hook)
        drafting->lab->hook->end(drafting->hook);
    speculator_free(drafting->speculator);
    free(drafting);
}

/* --- the prompt --------------------------------------------------------------------------------------------------- */

bool drafting_wants_prompt(const Drafting *drafting) {
    return prompt_rule_learns(drafting->report->prompt) && (speculator_sources(drafting->speculator) & TABLE_SOURCES);
}

/* Vocabularies are sorted by frequency in the text that they were made of. Nearly all tokens that a model predicts are
 * in the first sixteenth of 150,000 (docs/lab/speculation.md), and looking at an eighth takes a fourth of the time. The
 * source calibration looks at all tokens, as its paper does. */
size_t drafting_top_outputs(const Drafting *drafting, size_t n_vocab) {
    const size_t n = MAX(n_vocab / TOP_OUTPUTS_PART, TOP_OUTPUTS_MIN);

    if (speculator_sources(drafting->speculator) & 1u << SPECULATION_CALIBRATION)
        return 0;
    return n < n_vocab ? n : 0;
}

void drafting_learn_prompt(Drafting *drafting, uint32_t before, uint32_t token, const EngineTops *tops) {
    speculator_observe(drafting->speculator, before, token, tops->tops, tops->n, true);
    drafting->report->n_prompt_rows++;
}

void drafting_prompt_took(Drafting *drafting, uint32_t rows, uint64_t ns) {
    speculation_control_prompt(&drafting->control, rows, (float)ns / 1e6F);
}

static bool has_model(const Drafting *drafting) {
    return prompt_rule_learns(drafting->report->model) &&
           (speculator_sources(drafting->speculator) >> SPECULATION_MODEL & 1);
}

static void append_text(Drafting *drafting, const uint32_t *tokens, size_t n) {
    speculator_append(drafting->speculator, tokens + drafting->n_text, n - drafting->n_text);
    drafting->n_text = n;
}

/* Returns how many tokens of the prompt, as far as the speculator has it, the draft model has still to read. */
static size_t prompt_left(const Drafting *drafting) {
    const size_t n_output = drafting->n_text > drafting->n_prompt ? drafting->n_text - drafting->n_prompt : 0;
    const size_t n_behind = has_model(drafting) ? speculator_n_behind(drafting->speculator) : 0;

    return n_behind > n_output ? n_behind - n_output : 0;
}

/* Lets the draft model read a chunk of the prompt, no more because others wait for the step. Reading was decided to
 * pay, so its duration does not count against the step's drafts. */
static void read_some(Drafting *drafting, size_t left) {
    const uint64_t before_ns = drafting->report->model_ns;
    const size_t chunk = engine_chunk_tokens(drafting->engine);

    speculator_follow(drafting->speculator, MIN(left, chunk));
    drafting->model_read_ns += drafting->report->model_ns - before_ns;
    drafting->model_prompt_ns += drafting->report->model_ns - before_ns;
    drafting->n_model_prompt += left - prompt_left(drafting);
}

void drafting_read_prompt(Drafting *drafting, const uint32_t *tokens, size_t n, uint64_t head_ns) {
    size_t left;

    drafting->report->prompt_head_ns += head_ns;
    if (!has_model(drafting) || drafting->options.model.ops->has_text)
        return;
    append_text(drafting, tokens, n);
    left = prompt_left(drafting);
    if (left)
        read_some(drafting, left);
}

DraftCosts drafting_costs(const Drafting *drafting, StepCompany company) {
    if (drafting->lab->always)
        return (DraftCosts){ .ms = free_rows, .n_rows = DRAFT_ROWS_MAX };
    return speculation_control_costs(&drafting->control, company);
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* Returns how long the draft model may take in a step, in ms; 0: it is not asked. */
static float model_ms(const Drafting *drafting, StepCompany company) {
    if (!has_model(drafting))
        return 0;
    if (drafting->lab->always)
        return 1;
    if (drafting->lab->no_bounds)
        return drafting_costs(drafting, company).n_rows ? INFINITY : 0;
    return model_control_is_on(&drafting->model_control) ? speculation_control_model_ms(&drafting->control, company)
                                                         : 0;
}

/* Returns the most rows of the generation's tree; durations that nobody has measured yet do not bound it. Trees of
 * the product keep themselves and the draft model within the step's time together; other policies get the time that
 * the draft model leaves if it takes all of its budget. */
static uint32_t rows_of_step(const Drafting *drafting, DraftingLimits limits, StepCompany company, float model_ms) {
    const ModelShare model = { model_ms > 0, drafting->lab->policy ? model_ms : 0 };
    uint32_t rows;

    if (drafting->lab->always)
        return limits.rows;
    if (drafting->lab->no_bounds)
        return drafting_costs(drafting, company).n_rows ? limits.rows : 1;
    rows = speculation_control_rows(&drafting->control, company, model);
    return MIN(rows, limits.rows);
}

static void grow_tree(Drafting *drafting, DraftingLimits limits, StepCompany company) {
    const SpecLab *lab = drafting->lab;
    const uint64_t start_ns = clock_now_ns(), model_before_ns = drafting->report->model_ns;
    const ModelBudget budget = {
        .ms = prompt_left(drafting) ? 0 : model_ms(drafting, company),
        .step_ms = lab->always || lab->no_bounds ? 0 : speculation_control_longer_ms(&drafting->control, company),
        .stops = limits.stops,
        .stops_arg = limits.stops_arg,
    };
    const DraftCosts costs = drafting_costs(drafting, company);
    const DraftLimits draft_limits = {
        .nodes_max = rows_of_step(drafting, limits, company, budget.ms) - 1,
        .depth_max = DRAFT_NODES_MAX,
        .tokens_left = limits.tokens_left,
    };

    speculator_draft(drafting->speculator, draft_limits, costs,
                     budget.ms > 0 && draft_limits.nodes_max ? &budget : NULL, &drafting->step.tree);
    if (drafting->chains) /* the speculator's trees may have been chosen before memory was short */
        draft_share_chain(&drafting->step.tree);
    drafting->model_step_ns = drafting->report->model_ns - model_before_ns;
    drafting->report->draft_ns += clock_now_ns() - start_ns - drafting->model_step_ns;
}

void drafting_grow(Drafting *drafting, const uint32_t *tokens, size_t n, DraftingLimits limits, StepCompany company) {
    size_t left;

    append_text(drafting, tokens, n);
    draft_constraint_begin(&drafting->constraint, tokens, n);
    drafting->step.company = company;
    drafting->step.path[0] = 0;
    drafting->step.n_path = 1;
    drafting->step.has_ended = false;
    for (uint32_t row = 0; row < DRAFT_ROWS_MAX; row++) /* rows that get no logits must have no old tops */
        drafting->step.tops[row].n = 0;
    left = prompt_left(drafting);
    if (left && !(limits.stops && limits.stops(limits.stops_arg)))
        read_some(drafting, left);
    grow_tree(drafting, limits, company);
}

DraftTree *drafting_tree(Drafting *drafting) {
    return &drafting->step.tree;
}

void drafting_use_chains(Drafting *drafting) {
    drafting->chains = true;
    draft_share_chain(&drafting->step.tree);
}

void drafting_fill_span(const Drafting *drafting, EngineSpan *span) {
    const DraftTree *tree = &drafting->step.tree;

    span->tokens = tree->tokens;
    span->parents = tree->parents;
    span->n = span->head.n_rows = tree->n_rows;
    span->head.wants_tops = speculator_sources(drafting->speculator) & (TABLE_SOURCES | 1u << SPECULATION_REUSE);
    span->head.n_top_outputs = drafting_top_outputs(drafting, engine_info(drafting->engine)->n_vocab);
    span->head.on_demand = drafting->options.head_on_demand && !span->head.wants_tops;
}

/* --- rows that the laboratory's hook ends ------------------------------------------------------------------------- */

static_assert((int)DRAFT_ROWS_MAX <= 64, "a row has a bit in DraftStep.gone");

static bool has_gone(const DraftStep *step, uint32_t row) {
    return step->gone >> row & 1;
}

uint32_t drafting_n_gone(const Drafting *drafting) {
    return (uint32_t)__builtin_popcountll(drafting->step.gone);
}

/* See EngineLook.call(). */
static int look_at_rows(void *arg, const float *hidden, uint16_t *rows, ErrText *err) {
    Drafting *drafting = arg;
    const uint32_t n_rows = drafting->step.tree.n_rows;
    const int n = drafting->lab->hook->look(drafting->hook, hidden, rows, err);

    if (n <= 0 || (uint32_t)n == n_rows)
        return n;
    drafting->step.gone = UINT64_MAX >> (64 - n_rows);
    for (int i = 0; i < n; i++)
        drafting->step.gone &= ~(UINT64_C(1) << rows[i]);
    return n;
}

void drafting_begin_step(Drafting *drafting, EngineSpan *span, StepCompany company) {
    DraftStep *step = &drafting->step;

    step->company = company;
    step->gone = 0;
    step->look_layer = 0;
    if (drafting->hook)
        step->look_layer = drafting->lab->hook->ask(
            drafting->hook, &(TreeHookStep){ .tree = &step->tree,
                                             .sources = speculator_drafters(drafting->speculator),
                                             .costs = drafting_costs(drafting, company),
                                             .prompt_rows = company.prompt_rows });
    span->look = (EngineLook){ step->look_layer, look_at_rows, drafting };
}

/* Removes the rows that have gone from the tree, its path and tops, as if they had never been drafted. */
static void cut_gone(DraftStep *step) {
    uint16_t rows[DRAFT_ROWS_MAX], moved[DRAFT_ROWS_MAX] = { 0 };
    uint32_t n = 0;

    for (uint32_t row = 0; row < step->tree.n_rows; row++) {
        if (has_gone(step, row))
            continue;
        step->tops[n] = step->tops[row];
        moved[row] = (uint16_t)n;
        rows[n++] = (uint16_t)row;
    }
    for (uint32_t i = 0; i < step->n_path; i++)
        step->path[i] = moved[step->path[i]];
    draft_tree_keep(&step->tree, rows, n);
}

/* Returns how many rows with all layers take as long as those of the step, once it has ended. */
static uint32_t rows_worth(const Drafting *drafting) {
    const uint32_t n_layers = engine_info(drafting->engine)->n_layers, n_gone = drafting_n_gone(drafting),
                   n_drafted = drafting->step.tree.n_rows + n_gone;
    const float share_behind = (float)(n_layers - drafting->step.look_layer) / (float)n_layers;

    return n_drafted - (uint32_t)((float)n_gone * share_behind);
}

/* --- the verification --------------------------------------------------------------------------------------------- */

bool drafting_row(Drafting *drafting, uint32_t row, const EngineTops *tops, size_t *depthp) {
    DraftStep *step = &drafting->step;

    if (tops)
        step->tops[row] = *tops;
    else
        step->tops[row].n = 0;
    *depthp = step->n_path - 1;
    return !step->has_ended && step->path[step->n_path - 1] == row;
}

bool drafting_pick(Drafting *drafting, uint32_t token, bool is_end, EngineSpan *span) {
    DraftStep *step = &drafting->step;
    const int child = is_end ? -1 : draft_tree_child(&step->tree, step->path[step->n_path - 1], token);

    step->picked[step->n_path - 1] = token;
    if (child < 0 || has_gone(step, (uint32_t)child)) {
        step->has_ended = true;
        span->kept = step->path;
        span->n_kept = step->n_path;
        return false;
    }
    step->path[step->n_path++] = (uint16_t)child;
    if (span->head.on_demand)
        span->head.next_row = (size_t)child;
    return true;
}

const uint32_t *drafting_picked(const Drafting *drafting) {
    return drafting->step.picked;
}

static void observe_rows(Drafting *drafting, uint32_t before) {
    const DraftTree *tree = &drafting->step.tree;

    for (uint32_t row = 0; row < tree->n_rows; row++)
        speculator_observe(drafting->speculator, row ? tree->tokens[tree->parents[row]] : before, tree->tokens[row],
                           drafting->step.tops[row].tops, drafting->step.tops[row].n, false);
}

/* Returns the most probable token at a row that the answer's constraint allows; CONTEXT_NO_TOKEN: none of the row's
 * tops may come. */
static uint32_t choice_of_target(const Drafting *drafting, uint32_t row) {
    const EngineTops *tops = &drafting->step.tops[row];

    for (uint32_t i = 0; i < tops->n; i++)
        if (speculator_allows(drafting->speculator, &drafting->step.tree, row, tops->tops[i].token))
            return tops->tops[i].token;
    return CONTEXT_NO_TOKEN;
}

void drafting_learn(Drafting *drafting, uint32_t before, uint32_t n_tokens, uint64_t head_ns) {
    const DraftTree *tree = &drafting->step.tree;
    DraftReport *report = drafting->report;
    const uint64_t start_ns = clock_now_ns();
    uint32_t accepted[DRAFT_ROWS_MAX], tops[DRAFT_ROWS_MAX];
    bool has_tops = true;

    assert(drafting->step.has_ended && n_tokens <= drafting->step.n_path);
    report->head_ns += head_ns;
    report->n_rows += tree->n_rows;
    if (drafting->step.gone)
        cut_gone(&drafting->step);
    for (uint32_t row = 0; row < tree->n_rows; row++) {
        has_tops = has_tops && drafting->step.tops[row].n;
        tops[row] = has_tops ? choice_of_target(drafting, row) : 0;
    }
    for (uint32_t i = 1; i < drafting->step.n_path; i++)
        accepted[i - 1] = drafting->step.path[i];
    observe_rows(drafting, before);
    if (tree->n_rows > 1)
        speculator_verified(drafting->speculator, tree, accepted, drafting->step.n_path - 1,
                            drafting->step.picked[drafting->step.n_path - 1], has_tops ? tops : NULL);
    drafting->step.n_emitted = n_tokens;
    report->n_steps++;
    report->draft_ns += clock_now_ns() - start_ns;
}

/* Judges whether the draft model pays, by known durations of rows: a single step's own duration says little. */
static void judge_model(Drafting *drafting) {
    const SpeculatorModelStep *step = speculator_model_step(drafting->speculator);
    const DraftCosts costs = drafting_costs(drafting, drafting->step.company);
    const uint32_t n_rows = rows_worth(drafting);
    const bool is_cut = drafting->step.n_emitted < drafting->step.n_path; /* the generation ended within the path */

    if (step->n_behind)
        model_control_behind(&drafting->model_control, step->n_behind);
    if (n_rows > costs.n_rows || step->rows_without > costs.n_rows)
        return;
    model_control_took(&drafting->model_control,
                       &(ModelControlStep){
                           .has_drafted = step->has_drafted && !is_cut,
                           .n_tokens = drafting->step.n_emitted,
                           .tokens_without = step->has_drafted ? step->tokens_without : drafting->step.n_emitted,
                           .ms = costs.ms[n_rows - 1] + costs.more_ms + (float)drafting->model_step_ns / 1e6F,
                           .ms_without = costs.ms[step->rows_without - 1] + costs.more_ms,
                           .plain_ms = costs.ms[0] + costs.more_ms,
                       });
}

static void tell_hook(const Drafting *drafting) {
    const DraftStep *step = &drafting->step;
    const TreeHookResult result = {
        .path = step->path,
        .n_path = step->n_path,
        .n_emitted = step->n_emitted,
        .token_ms = drafting->n_output ? (float)drafting->took_ns / 1e6F / (float)drafting->n_output : 0,
    };

    drafting->lab->hook->took(drafting->hook, &result);
}

void drafting_took(Drafting *drafting, uint64_t ns) {
    if (ns) {
        drafting->n_output += drafting->step.n_emitted;
        drafting->took_ns += ns + drafting->model_step_ns;
    }
    if (!drafting->lab->always && has_model(drafting))
        judge_model(drafting);
    if (drafting->hook)
        tell_hook(drafting);
    speculation_control_took(&drafting->control, rows_worth(drafting), drafting->step.company, drafting->step.n_emitted,
                             (float)ns / 1e6F, (float)drafting->model_step_ns / 1e6F);
}

uint64_t drafting_model_ns(const Drafting *drafting) {
    return drafting->model_step_ns + drafting->model_read_ns;
}

void drafting_end_step(Drafting *drafting) {
    drafting->model_step_ns = drafting->model_read_ns = 0;
}
