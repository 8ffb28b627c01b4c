// SPDX-License-Identifier: Apache-2.0
#include "spec/speculator.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "base/min_max.h"
#include "spec/sources/calibration.h"
#include "spec/sources/continuation_table.h"
#include "spec/sources/draft_reuse.h"
#include "spec/sources/drafter_lookup.h"
#include "spec/sources/drafter_sam.h"

static_assert((int)_SPECULATION_N <= (int)DRAFT_SOURCES_MAX, "a source has a number in the tree");

struct Speculator {
    Drafter drafters[_SPECULATION_N]; /* off without ops */
    GrammarDrafter *grammar;          /* NULL: the text has none, or there was no memory to look ahead in it */
    const SpecLab *lab;
    void *policy; /* state of the lab's policy; NULL: the lab has none */
    DraftValue value;
    DraftTree without; /* the last tree as it would have been without the model */
    SpeculatorModelStep model_step;
    uint32_t nodes_max;
    bool chains;
    bool has_text;
    uint32_t last; /* last token of the text */
    SourceStats stats;
    DraftReport *report;
};

static void free_source(Speculator *speculator, SpeculationSource source) {
    Drafter *drafter = &speculator->drafters[source];

    if (drafter->ops)
        drafter->ops->free(drafter->self);
    *drafter = (Drafter){ 0 };
}

/* Turns a source off and frees its memory at once: others may lack it. */
static void turn_off(Speculator *speculator, SpeculationSource source) {
    speculator->report->sources &= ~(1u << source);
    free_source(speculator, source);
}

/* The draft model's drafter; NULL: the source is off. */
static ModelDrafter *model_of(const Speculator *speculator) {
    return speculator->drafters[SPECULATION_MODEL].self;
}

/* Makes what cuts drafts by the grammar, if the text has one. Without memory drafts are whole: the target refuses what
 * the grammar refuses. */
static void begin_grammar(Speculator *speculator, AccountTable *accounts, DraftGrammar grammar) {
    if (grammar.ops && grammar_drafter_new(accounts, grammar, &speculator->grammar))
        speculator->grammar = NULL;
}

/* Makes a source. Without memory the drafter has no ops: the source is off. */
static Drafter drafter_new(const Speculator *speculator, SpeculationSource source, AccountTable *accounts,
                           const SpeculatorOptions *options) {
    ContinuationTable *table;
    Calibration *calibration;
    HistoryReader *reader;
    DrafterLookup *lookup;
    ModelDrafter *model;
    DraftReuse *reuse;
    DrafterSam *sam;

    switch (source) {
    case SPECULATION_LOOKUP:
        if (!drafter_lookup_new(accounts, &lookup))
            return (Drafter){ &drafter_lookup_ops, lookup };
        break;
    case SPECULATION_SAM:
        if (!drafter_sam_new(accounts, &sam))
            return (Drafter){ &drafter_sam_ops, sam };
        break;
    case SPECULATION_CALIBRATION:
        if (!calibration_new(accounts, &calibration))
            return (Drafter){ &calibration_ops, calibration };
        break;
    case SPECULATION_TABLE:
        if (!continuation_table_new(accounts, &table))
            return (Drafter){ &continuation_table_ops, table };
        break;
    case SPECULATION_REUSE:
        if (!draft_reuse_new(&reuse))
            return (Drafter){ &draft_reuse_ops, reuse };
        break;
    case SPECULATION_MODEL:
        if (options->model.ops && !model_drafter_new(accounts, options->model, &model))
            return (Drafter){ &model_drafter_ops, model };
        break;
    case SPECULATION_HISTORY:
        if (options->history && !history_reader_new(options->history, &reader))
            return (Drafter){ &history_drafter_ops, reader };
        break;
    case SPECULATION_GRAMMAR:
        if (speculator->grammar)
            return (Drafter){ &grammar_drafter_ops, speculator->grammar };
        break;
    case _SPECULATION_N:
        break;
    }
    return (Drafter){ 0 };
}

static void turn_on(Speculator *speculator, SpeculationSource source, AccountTable *accounts,
                    const SpeculatorOptions *options) {
    Drafter *drafter = &speculator->drafters[source];

    *drafter = drafter_new(speculator, source, accounts, options);
    if (!drafter->ops)
        return;
    speculator->report->sources |= 1u << source;
    source_stats_init(&speculator->stats, source, drafter->ops, options->stats);
}

int speculator_new(AccountTable *accounts, const SpeculatorOptions *options, Speculator **speculatorp) {
    Speculator *speculator = calloc(1, sizeof(*speculator));

    if (!speculator)
        return -ENOMEM;
    speculator->report = options->report;
    *speculator->report = (DraftReport){ 0 };
    speculator->nodes_max = options->nodes_max;
    source_stats_begin(&speculator->stats, 1u << SPECULATION_MODEL, options->stats);
    speculator->chains = options->chains;
    speculator->lab = spec_lab_of(options->lab);
    draft_value_init(&speculator->value);
    begin_grammar(speculator, accounts, options->grammar);
    for (SpeculationSource source = 0; source < _SPECULATION_N; source++)
        if (options->sources >> source & 1)
            turn_on(speculator, source, accounts, options);
    if (speculator->lab->policy) {
        speculator->policy = speculator->lab->policy->begin();
        if (!speculator->policy) {
            speculator_free(speculator);
            return -ENOMEM;
        }
    }
    *speculatorp = speculator;
    return 0;
}

void speculator_free(Speculator *speculator) {
    if (!speculator)
        return;
    for (SpeculationSource source = 0; source < _SPECULATION_N; source++)
        free_source(speculator, source);
    grammar_drafter_free(speculator->grammar);
    if (speculator->policy)
        speculator->lab->policy->end(speculator->policy);
    free(speculator);
}

void speculator_append(Speculator *speculator, const uint32_t *tokens, size_t n) {
    if (!n)
        return;
    for (SpeculationSource source = 0; source < _SPECULATION_N; source++) {
        const Drafter *drafter = &speculator->drafters[source];

        if (drafter->ops && drafter->ops->append(drafter->self, tokens, n))
            turn_off(speculator, source);
    }
    speculator->has_text = true;
    speculator->last = tokens[n - 1];
}

/**
 * speculator_observe() - learn what the target holds for likely behind a row that it computed
 * @before, @token: the row's token and the one before it on its path (CONTEXT_NO_TOKEN: there is none)
 * @top: most probable first
 * @is_prompt: the row is one of the prompt; false: a row of a step, accepted or not
 */
void speculator_observe(Speculator *speculator, uint32_t before, uint32_t token, const ContextTop *top, size_t n,
                        bool is_prompt) {
    ContinuationTable *table = speculator->drafters[SPECULATION_TABLE].self;
    Calibration *calibration = speculator->drafters[SPECULATION_CALIBRATION].self;

    if (table && continuation_table_observe(table, before, token, top, n, is_prompt))
        turn_off(speculator, SPECULATION_TABLE);
    if (is_prompt && calibration && calibration_observe(calibration, before, token, top, n))
        turn_off(speculator, SPECULATION_CALIBRATION);
}

/* Chains of the suffix automaton alone are a published baseline (SAM-Decoding), and end where it does. */
static uint32_t nodes_max_of(const Speculator *speculator) {
    uint32_t most;

    if (!speculator->chains || speculator_sources(speculator) != 1u << SPECULATION_SAM)
        return speculator->nodes_max;
    most = drafter_sam_draft_tokens(speculator->drafters[SPECULATION_SAM].self);
    return MIN(most, speculator->nodes_max);
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

size_t speculator_n_behind(const Speculator *speculator) {
    const ModelDrafter *model = model_of(speculator);

    return model && speculator->has_text ? model_drafter_n_behind(model) : 0;
}

/* Whether the model has answered. An error turns it off, unless the model is busy or has still to read: it may be asked
 * again. */
static bool has_answered(Speculator *speculator, int r) {
    if (r && r != MODEL_DRAFTER_E_BEHIND && r != -EBUSY)
        turn_off(speculator, SPECULATION_MODEL);
    return !r;
}

void speculator_follow(Speculator *speculator, size_t most) {
    if (model_of(speculator) && speculator->has_text)
        (void)has_answered(speculator, model_drafter_follow(model_of(speculator), most));
}

/* Lets the model read within the budget. Returns whether it has read the whole text, so that it can draft. */
static bool follow_within(Speculator *speculator, const ModelBudget *budget) {
    SpeculatorModelStep *step = &speculator->model_step;
    const float ms = !budget ? 0 : speculator->lab->always ? INFINITY : budget->ms;
    size_t most;
    bool is_there;

    if (!model_of(speculator) || !speculator->has_text || !budget ||
        (budget->stops && budget->stops(budget->stops_arg)))
        return false;
    most = model_drafter_affords(model_of(speculator), ms, &step->report.spent_ms);
    is_there = has_answered(speculator, model_drafter_follow(model_of(speculator), most));
    step->n_behind = speculator_n_behind(speculator);
    return is_there;
}

/* Grows the tree with the model's drafts. Returns 0, or an error of the model. */
static int draft_with_model(Speculator *speculator, DraftSources sources, DraftLimits limits, DraftCosts costs,
                            const ModelBudget *budget, DraftTree *tree) {
    DraftRoundsReport *report = &speculator->model_step.report;
    const DraftRounds rounds = {
        .sources = sources,
        .model = model_of(speculator),
        .value = &speculator->value,
        .limits = limits,
        .costs = costs,
        .budget = *budget,
        .chain = speculator->chains,
        .lab = speculator->lab,
    };

    if (!speculator->policy)
        return draft_rounds(tree, &speculator->without, speculator->last, &rounds, report);
    draft_tree_init(&speculator->without, speculator->last);
    return speculator->lab->policy->grow(speculator->policy, tree, speculator->last, &rounds, report);
}

/* Without any text the tree is one row that nobody should verify. */
void speculator_draft(Speculator *speculator, DraftLimits limits, DraftCosts costs, const ModelBudget *model,
                      DraftTree *tree) {
    DraftSources sources = speculator_drafters(speculator);
    SpeculatorModelStep *step = &speculator->model_step;
    const uint32_t most = nodes_max_of(speculator);

    if (limits.nodes_max > most)
        limits.nodes_max = most;
    if (!speculator->has_text)
        limits.nodes_max = 0;
    if (speculator->grammar)
        grammar_drafter_begin(speculator->grammar);
    *step = (SpeculatorModelStep){ 0 };
    step->has_drafted = follow_within(speculator, model) &&
                        has_answered(speculator, draft_with_model(speculator, sources, limits, costs, model, tree));
    if (!step->has_drafted)
        draft_growth(tree, speculator->last, sources, limits, costs, speculator->chains);
    step->rows_without = step->has_drafted ? speculator->without.n_rows : tree->n_rows;
}

DraftSources speculator_drafters(const Speculator *speculator) {
    return (DraftSources){ speculator->drafters, _SPECULATION_N, &speculator->stats, speculator->grammar };
}

/* Returns the grammar's place at a row. Trees are shallow, and most rows' places exist. */
static uint32_t place_of(const Speculator *speculator, const DraftTree *tree, uint32_t row) {
    uint32_t way[DRAFT_ROWS_MAX], n = 0, place = grammar_drafter_root(speculator->grammar);

    for (; row; row = (uint32_t)tree->parents[row])
        way[n++] = tree->tokens[row];
    while (n)
        place = grammar_drafter_step(speculator->grammar, place, way[--n]);
    return place;
}

bool speculator_allows(const Speculator *speculator, const DraftTree *tree, uint32_t row, uint32_t token) {
    return !speculator->grammar || grammar_drafter_allows(speculator->grammar, place_of(speculator, tree, row), token);
}

/* Returns how many tokens the tree without the model would have given on this path. The statistics learn from that
 * tree, too. */
static uint32_t tokens_without(Speculator *speculator, const DraftTree *tree, const uint32_t *accepted,
                               uint32_t n_accepted, uint32_t next) {
    const DraftTree *without = &speculator->without;
    uint32_t n = 0;
    int at = 0;

    if (!speculator->model_step.has_drafted)
        return n_accepted + 1;
    for (; at >= 0 && n <= n_accepted; n++) {
        const uint32_t came = n < n_accepted ? tree->tokens[accepted[n]] : next;

        for (uint32_t row = 1; row < without->n_rows; row++)
            if (without->parents[row] == at)
                source_stats_count(&speculator->stats, &without->nodes[without->node_of[row]],
                                   without->tokens[row] == came);
        at = draft_tree_child(without, (uint32_t)at, came);
    }
    return n;
}

/* --- verification ------------------------------------------------------------------------------------------------- */

/* Whether only choices that were learned from rows of the prompt proposed the node. */
static bool is_of_prompt(const DraftNode *node) {
    for (uint32_t i = 0; i < node->n_credits; i++)
        if (!node->credits[i].of_prompt)
            return false;
    return true;
}

static void count_node(Speculator *speculator, const DraftNode *node, bool was_tried, bool hit, bool accepted) {
    if (was_tried)
        (speculator->model_step.has_drafted ? source_stats_count_led : source_stats_count)(&speculator->stats, node,
                                                                                           hit);
    for (uint32_t i = 0; i < node->n_credits; i++) {
        speculator->report->drafted[node->credits[i].source]++;
        speculator->report->accepted[node->credits[i].source] += accepted;
    }
    speculator->report->accepted_of_prompt += accepted && is_of_prompt(node);
}

/**
 * speculator_verified() - learn from a verified tree
 * @accepted: the rows that the target took, from the root's child down
 * @next: the token that the target emitted behind the last of them
 * @top_of_rows: the target's most probable token at every row of the tree; NULL: rejected drafts are not reused
 *
 * Only nodes whose parent the target reached tell something of their chance. The caller appends the accepted tokens
 * and @next to the text.
 */
void speculator_verified(Speculator *speculator, const DraftTree *tree, const uint32_t *accepted, uint32_t n_accepted,
                         uint32_t next, const uint32_t *top_of_rows) {
    int64_t next_of[DRAFT_ROWS_MAX]; /* the token that came behind a row; -1: the target did not reach the row */
    bool taken[DRAFT_ROWS_MAX] = { false };
    DraftReuse *reuse = speculator->drafters[SPECULATION_REUSE].self;
    uint32_t at = 0;

    for (uint32_t row = 0; row < tree->n_rows; row++)
        next_of[row] = -1;
    for (uint32_t i = 0; i < n_accepted; i++) {
        assert(accepted[i] < tree->n_rows && tree->parents[accepted[i]] == (int)at);
        next_of[at] = tree->tokens[accepted[i]];
        at = accepted[i];
        taken[at] = true;
    }
    next_of[at] = next;
    for (uint32_t row = 1; row < tree->n_rows; row++) {
        int64_t came = next_of[tree->parents[row]];

        count_node(speculator, &tree->nodes[tree->node_of[row]], came >= 0, came == tree->tokens[row], taken[row]);
    }
    speculator->report->lengths[n_accepted]++;
    speculator->report->n_verifications++;
    speculator->model_step.tokens_without = tokens_without(speculator, tree, accepted, n_accepted, next);
    if (speculator->policy && speculator->model_step.has_drafted)
        speculator->lab->policy->learn(speculator->policy, model_of(speculator), tree, accepted, n_accepted, next);
    if (reuse)
        draft_reuse_learn(reuse, tree, accepted, n_accepted, top_of_rows);
}

const SourceStats *speculator_stats(const Speculator *speculator) {
    return &speculator->stats;
}

const SpeculatorModelStep *speculator_model_step(const Speculator *speculator) {
    return &speculator->model_step;
}

uint32_t speculator_sources(const Speculator *speculator) {
    return speculator->report->sources;
}
