// SPDX-License-Identifier: Apache-2.0
#include "tools/exit/exit_pruning.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "engine/core/engine_state.h"
#include "tools/exit/exit_control.h"

enum {
    ROWS_MIN = 3, /* rows that stay at least, the root included */
    SIBLINGS = 2  /* rows behind the root that stay at least */
};

static const float backbone = 1.4F;      /* ln 4: rows of the backbone stay at a quarter of the chance of others */
static const float least_saving = 0.01F; /* smallest share of a step's duration that pruning must save */

/* Pruning of one generation. */
typedef struct Pruner {
    ExitPruning *pruning;
    ExitControl control;
    TreeHookStep step;
    ExitChoice choice;               /* of the step */
    bool was_asked;                  /* the predictor was asked in the step */
    uint64_t asked_ns;               /* duration of asking in the step */
    uint32_t n_gone;                 /* rows that ended in the step */
    uint64_t masks[EXIT_THRESHOLDS]; /* in a trial: rows that each threshold would have kept, as bits */
    ExitTrial trial;
    DraftEdge edges[SHADOW_EDGES_MAX]; /* [n_edges] */
    float log_shares[SHADOW_EDGES_MAX];
    size_t n_edges;
    float row_shares[DRAFT_ROWS_MAX]; /* log shares of the rows of the tree */
} Pruner;

static void *begin(void *arg) {
    Pruner *pruner = malloc(sizeof(*pruner));

    if (!pruner)
        return NULL;
    pruner->pruning = arg;
    exit_control_init(&pruner->control);
    return pruner;
}

static void end(void *self) {
    free(self);
}

static ExitChoice choose_step(const Pruner *pruner) {
    const ExitPruningMode mode = pruner->pruning->mode;

    if (pruner->step.tree->n_rows < EXIT_ROWS_MIN)
        return EXIT_REST;
    if (mode == EXIT_PRUNING_ALWAYS)
        return EXIT_PRUNE;
    if (mode == EXIT_PRUNING_WATCHED)
        return EXIT_TRIAL;
    /* A row of ours takes next to nothing beside rows of prompts, which nobody may prune. */
    return pruner->step.prompt_rows ? EXIT_REST : exit_control_choose(&pruner->control);
}

static uint32_t ask(void *self, const TreeHookStep *step) {
    Pruner *pruner = self;
    const EarlyExit *exit = pruner->pruning->exit;
    const uint32_t n_vocab = engine_info(exit->engine)->n_vocab;
    size_t n_edges;

    pruner->step = *step;
    pruner->was_asked = false;
    pruner->n_gone = 0;
    pruner->choice = choose_step(pruner);
    if (pruner->choice == EXIT_REST)
        return 0;
    n_edges = draft_shadows(step->tree, step->sources, pruner->edges);
    pruner->n_edges = 0;
    for (size_t i = 0; i < n_edges; i++)
        if (pruner->edges[i].token < n_vocab) /* no step has checked the token of a shadow edge */
            pruner->edges[pruner->n_edges++] = pruner->edges[i];
    return pruner->n_edges ? exit->layer : 0;
}

/* Returns the share of a step's duration that comes behind the exit. */
static float share_behind(const EarlyExit *exit) {
    const uint32_t n_layers = engine_info(exit->engine)->n_layers;

    return (float)(n_layers - exit->layer) / (float)n_layers;
}

PruningRule exit_pruning_rule(float threshold) {
    return (PruningRule){ .threshold = threshold, .backbone = backbone, .rows_min = ROWS_MIN, .siblings = SIBLINGS };
}

/* Writes the rows that a threshold keeps, all if too little would be saved. Return: how many. */
static uint32_t keep(const Pruner *pruner, const float *scores, uint32_t threshold, uint16_t *rows, float *savedp) {
    const ExitPruning *pruning = pruner->pruning;
    const bool always = pruning->mode == EXIT_PRUNING_ALWAYS;
    const DraftTree *tree = pruner->step.tree;
    const DraftCosts costs = always ? (DraftCosts){ 0 } : pruner->step.costs;
    const PruningRule rule =
        exit_pruning_rule(pruning->threshold < 0 ? pruning->threshold : exit_thresholds[threshold]);
    uint32_t n = tree_pruning(tree, scores, &rule, costs, rows);

    *savedp = tree_pruning_saves_ms(costs, tree->n_rows, n, share_behind(pruning->exit));
    if (always || (costs.n_rows && *savedp >= least_saving * (costs.ms[0] + costs.more_ms)))
        return n;
    *savedp = 0;
    for (uint32_t row = 0; row < tree->n_rows; row++)
        rows[row] = (uint16_t)row;
    return tree->n_rows;
}

static void find_scores(Pruner *pruner, float *scores) {
    pruner->row_shares[0] = 0;
    for (size_t i = 0; i < pruner->n_edges; i++)
        if (pruner->edges[i].child >= 0)
            pruner->row_shares[pruner->edges[i].child] = pruner->log_shares[i];
    tree_pruning_scores(pruner->step.tree, pruner->row_shares, pruner->pruning->exit->mix, scores);
}

/* Records which rows each threshold would have kept, and what that would have saved. */
static void try_all(Pruner *pruner, const float *scores) {
    for (uint32_t i = 0; i < EXIT_THRESHOLDS; i++) {
        uint16_t rows[DRAFT_ROWS_MAX];
        const uint32_t n = keep(pruner, scores, i, rows, &pruner->trial.saved_ms[i]);

        pruner->masks[i] = 0;
        for (uint32_t row = 0; row < n; row++)
            pruner->masks[i] |= UINT64_C(1) << rows[row];
    }
}

static int look(void *self, const float *hidden, uint16_t *rows, ErrText *err) {
    Pruner *pruner = self;
    ExitPruning *pruning = pruner->pruning;
    const uint64_t start_ns = clock_now_ns();
    float scores[DRAFT_ROWS_MAX], saved_ms;
    uint32_t n;
    int r = early_exit_score(pruning->exit, hidden, pruner->edges, pruner->n_edges, pruner->log_shares, err);

    if (r)
        return MIN(r, 0);
    pruner->was_asked = true;
    pruner->asked_ns = clock_now_ns() - start_ns;
    find_scores(pruner, scores);
    if (pruner->choice == EXIT_TRIAL) {
        if (pruning->mode == EXIT_PRUNING_CONTROLLED)
            try_all(pruner, scores);
        return 0;
    }
    n = keep(pruner, scores, pruning->mode == EXIT_PRUNING_ALWAYS ? 0 : exit_control_threshold(&pruner->control), rows,
             &saved_ms);
    pruner->n_gone = pruner->step.tree->n_rows - n;
    return (int)n;
}

/* Counts the tokens of the path that each threshold would have lost. */
static void count_lost(Pruner *pruner, const TreeHookResult *result) {
    for (uint32_t i = 0; i < EXIT_THRESHOLDS; i++) {
        pruner->trial.n_lost[i] = 0;
        for (uint32_t at = 1; at < result->n_path; at++)
            pruner->trial.n_lost[i] += !(pruner->masks[i] >> result->path[at] & 1);
    }
}

static void learn(Pruner *pruner, const TreeHookResult *result) {
    const DraftCosts costs = pruner->step.costs;

    if (pruner->choice == EXIT_PRUNE) {
        exit_control_pruned(&pruner->control);
        return;
    }
    count_lost(pruner, result);
    pruner->trial.asked_ms = (float)pruner->asked_ns / 1e6F;
    pruner->trial.token_ms = result->token_ms > 0 ? result->token_ms : costs.n_rows ? costs.ms[0] + costs.more_ms : 0;
    exit_control_tried(&pruner->control, &pruner->trial);
}

static void took(void *self, const TreeHookResult *result) {
    Pruner *pruner = self;
    ExitPruning *pruning = pruner->pruning;

    exit_control_emitted(&pruner->control, result->n_emitted);
    if (!pruner->was_asked)
        return;
    pruning->report.ns += pruner->asked_ns;
    pruning->report.n_trials += pruner->choice == EXIT_TRIAL;
    pruning->report.n_steps += pruner->n_gone > 0;
    pruning->report.n_rows += pruner->n_gone;
    if (pruning->mode == EXIT_PRUNING_WATCHED && pruning->on_watched)
        pruning->on_watched(pruning->on_watched_arg,
                            &(ExitWatchedStep){ pruner->step.tree, pruner->row_shares, result->path, result->n_path });
    if (pruning->mode == EXIT_PRUNING_CONTROLLED)
        learn(pruner, result);
}

static const TreeHookOps ops = { .begin = begin, .end = end, .ask = ask, .look = look, .took = took };

void exit_pruning_hook(ExitPruning *pruning, SpecLab *lab) {
    const bool prunes = pruning->mode != EXIT_PRUNING_OFF && pruning->exit->layer;

    lab->hook = prunes ? &ops : NULL;
    lab->hook_arg = prunes ? pruning : NULL;
}
