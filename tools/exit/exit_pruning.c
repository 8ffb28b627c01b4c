// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/draft_pruning.h"

#include <assert.h>
#include <string.h>

enum {
    ROWS_MIN = 3, /* rows that stay at least, the root included */
    SIBLINGS = 2  /* rows behind the root that stay at least */
};

static const float backbone = 1.4F;      /* ln 4: rows of the backbone stay at a quarter of the chance of others */
static const float least_saving = 0.01F; /* smallest share of a step's duration that pruning must save */

void draft_pruning_init(DraftPruning *pruning, Engine *engine, const GenerationSpeculation *options,
                        Speculator *speculator, DraftStep *step, DraftReport *report) {
    pruning->engine = engine;
    pruning->options = options;
    pruning->speculator = speculator;
    pruning->step = step;
    pruning->report = report;
    exit_control_init(&pruning->control);
}

static ExitChoice choose_step(const DraftPruning *pruning) {
    const GenerationPruning mode = pruning->options->pruning;

    if (mode == GENERATION_PRUNING_OFF || !engine_exit_layer(pruning->engine) ||
        pruning->step->tree.n_rows < EXIT_ROWS_MIN)
        return EXIT_REST;
    if (mode == GENERATION_PRUNING_ALWAYS)
        return EXIT_PRUNE;
    if (mode == GENERATION_PRUNING_WATCHED)
        return EXIT_TRIAL;
    /* A row of ours takes next to nothing beside rows of prompts, which nobody may prune. */
    return pruning->step->company.prompt_rows ? EXIT_REST : exit_control_choose(&pruning->control);
}

/* Returns the share of a step's duration that comes behind the exit. */
static float share_behind(const DraftPruning *pruning) {
    const uint32_t n_layers = engine_info(pruning->engine)->n_layers;

    return (float)(n_layers - engine_exit_layer(pruning->engine)) / (float)n_layers;
}

PruningRule draft_pruning_rule(float threshold) {
    return (PruningRule){ .threshold = threshold, .backbone = backbone, .rows_min = ROWS_MIN, .siblings = SIBLINGS };
}

/* Writes the rows that a threshold keeps, all if too little would be saved. Return: how many. */
static uint32_t keep(const DraftPruning *pruning, const float *scores, uint32_t threshold, uint16_t *rows,
                     float *savedp) {
    const bool always = pruning->options->pruning == GENERATION_PRUNING_ALWAYS;
    const DraftTree *tree = &pruning->step->tree;
    const DraftCosts costs = always ? (DraftCosts){ 0 } : pruning->costs;
    const float chosen = spec_lab_of(pruning->options->lab)->pruning_threshold;
    const PruningRule rule = draft_pruning_rule(chosen < 0 ? chosen : exit_thresholds[threshold]);
    uint32_t n = tree_pruning(tree, scores, &rule, costs, rows);

    *savedp = tree_pruning_saves_ms(costs, tree->n_rows, n, share_behind(pruning));
    if (always || (costs.n_rows && *savedp >= least_saving * (costs.ms[0] + costs.more_ms)))
        return n;
    *savedp = 0;
    for (uint32_t row = 0; row < tree->n_rows; row++)
        rows[row] = (uint16_t)row;
    return tree->n_rows;
}

static void find_scores(DraftPruning *pruning, float *scores) {
    pruning->row_shares[0] = 0;
    for (size_t i = 0; i < pruning->exit.n; i++)
        if (pruning->edges[i].child >= 0)
            pruning->row_shares[pruning->edges[i].child] = pruning->log_shares[i];
    tree_pruning_scores(&pruning->step->tree, pruning->row_shares, engine_exit_mix(pruning->engine), scores);
}

/* Records which rows each threshold would have kept, and what that would have saved. */
static void try_all(DraftPruning *pruning, const float *scores) {
    for (uint32_t i = 0; i < EXIT_THRESHOLDS; i++) {
        uint16_t rows[DRAFT_ROWS_MAX];
        const uint32_t n = keep(pruning, scores, i, rows, &pruning->trial.saved_ms[i]);

        pruning->masks[i] = 0;
        for (uint32_t row = 0; row < n; row++)
            pruning->masks[i] |= UINT64_C(1) << rows[row];
    }
}

/* See EngineExit.choose(). */
static size_t choose_rows(void *arg, uint16_t *rows) {
    DraftPruning *pruning = arg;
    const bool always = pruning->options->pruning == GENERATION_PRUNING_ALWAYS;
    float scores[DRAFT_ROWS_MAX], saved_ms;
    uint32_t n;

    pruning->was_asked = true;
    find_scores(pruning, scores);
    if (pruning->choice == EXIT_TRIAL) {
        if (pruning->options->pruning == GENERATION_PRUNING_CONTROLLED)
            try_all(pruning, scores);
        return 0;
    }
    n = keep(pruning, scores, always ? 0 : exit_control_threshold(&pruning->control), rows, &saved_ms);
    if (n == pruning->step->tree.n_rows)
        return 0;
    pruning->n_drafted = pruning->step->tree.n_rows;
    pruning->n_kept = n;
    memcpy(pruning->kept, rows, n * sizeof(*rows));
    return n;
}

void draft_pruning_begin(DraftPruning *pruning, EngineSpan *span, DraftCosts costs) {
    const uint32_t n_vocab = engine_info(pruning->engine)->n_vocab;
    size_t n_edges, n = 0;

    span->exit = NULL;
    pruning->costs = costs;
    pruning->was_asked = false;
    pruning->n_drafted = 0;
    pruning->choice = choose_step(pruning);
    if (pruning->choice == EXIT_REST)
        return;
    n_edges = speculator_edges(pruning->speculator, &pruning->step->tree, pruning->edges);
    for (size_t i = 0; i < n_edges; i++) {
        if (pruning->edges[i].token >= n_vocab) /* a shadow edge, whose token no step has checked */
            continue;
        pruning->edges[n] = pruning->edges[i];
        pruning->rows[n] = pruning->edges[i].row;
        pruning->tokens[n++] = pruning->edges[i].token;
    }
    pruning->exit = (EngineExit){ .rows = pruning->rows,
                                  .tokens = pruning->tokens,
                                  .log_shares = pruning->log_shares,
                                  .n = n,
                                  .choose = choose_rows,
                                  .arg = pruning };
    span->exit = &pruning->exit;
}

static bool is_kept(const DraftPruning *pruning, uint32_t row, uint32_t *atp) {
    for (uint32_t i = 0; i < pruning->n_kept; i++)
        if (pruning->kept[i] == row) {
            *atp = i;
            return true;
        }
    return false;
}

uint32_t draft_pruning_n_gone(const DraftPruning *pruning) {
    return pruning->n_drafted ? pruning->n_drafted - pruning->n_kept : 0;
}

bool draft_pruning_has_gone(const DraftPruning *pruning, uint32_t row) {
    uint32_t at;

    return pruning->n_drafted && !is_kept(pruning, row, &at);
}

/* Counts the tokens of the path that each threshold would have lost. */
static void count_lost(DraftPruning *pruning) {
    for (uint32_t i = 0; i < EXIT_THRESHOLDS; i++) {
        pruning->trial.n_lost[i] = 0;
        for (uint32_t at = 1; at < pruning->step->n_path; at++)
            pruning->trial.n_lost[i] += !(pruning->masks[i] >> pruning->step->path[at] & 1);
    }
}

void draft_pruning_end(DraftPruning *pruning) {
    DraftReport *report = pruning->report;

    if (!pruning->was_asked)
        return;
    report->exit_ns += pruning->exit.ns;
    report->n_exit_trials += pruning->choice == EXIT_TRIAL;
    if (pruning->choice == EXIT_TRIAL && pruning->options->pruning == GENERATION_PRUNING_CONTROLLED)
        count_lost(pruning);
    if (pruning->options->pruning == GENERATION_PRUNING_WATCHED && spec_lab_of(pruning->options->lab)->on_watched)
        spec_lab_of(pruning->options->lab)
            ->on_watched(spec_lab_of(pruning->options->lab)->on_watched_arg,
                         &(SpecWatched){ &pruning->step->tree, pruning->row_shares, pruning->step->path,
                                         pruning->step->n_path });
    if (!pruning->n_drafted)
        return;
    report->n_exit_steps++;
    report->n_exit_rows += pruning->n_drafted - pruning->n_kept;
    for (uint32_t i = 0; i < pruning->n_kept; i++) /* rows rise: none is overwritten before it is read */
        pruning->step->tops[i] = pruning->step->tops[pruning->kept[i]];
    for (uint32_t i = 0; i < pruning->step->n_path; i++) {
        uint32_t at = 0;

        if (is_kept(pruning, pruning->step->path[i], &at))
            pruning->step->path[i] = (uint16_t)at;
    }
    tree_pruning_cut(&pruning->step->tree, pruning->kept, pruning->n_kept);
}

uint32_t draft_pruning_rows_worth(const DraftPruning *pruning) {
    const uint32_t n_rows = pruning->step->tree.n_rows;

    if (!pruning->n_drafted)
        return n_rows;
    return pruning->n_drafted - (uint32_t)((float)(pruning->n_drafted - n_rows) * share_behind(pruning));
}

void draft_pruning_learn(DraftPruning *pruning, float token_ms) {
    const DraftCosts costs = pruning->costs;

    exit_control_emitted(&pruning->control, pruning->step->n_emitted);
    if (pruning->options->pruning != GENERATION_PRUNING_CONTROLLED || !pruning->was_asked)
        return;
    if (pruning->choice == EXIT_PRUNE) {
        exit_control_pruned(&pruning->control);
        return;
    }
    pruning->trial.asked_ms = (float)pruning->exit.ns / 1e6F;
    pruning->trial.token_ms = token_ms > 0 ? token_ms : costs.n_rows ? costs.ms[0] + costs.more_ms : 0;
    exit_control_tried(&pruning->control, &pruning->trial);
}
