// SPDX-License-Identifier: Apache-2.0
/* Pruning of trees within their verification by an early-exit predictor: a TreeHook (spec/tree/spec_lab.h) that asks
 * the predictor, chooses the rows that go on, and learns what that was worth. */
#ifndef COORDGEN_EXIT_PRUNING_H
#define COORDGEN_EXIT_PRUNING_H

#include "spec/tree/spec_lab.h"
#include "tools/exit/early_exit.h"

typedef enum ExitPruningMode {
    EXIT_PRUNING_OFF,
    EXIT_PRUNING_CONTROLLED, /* where measurements show that pruning pays */
    EXIT_PRUNING_ALWAYS,     /* as much as possible, whether or not it pays */
    EXIT_PRUNING_WATCHED,    /* the predictor is asked, no row ends, and on_watched is called */
} ExitPruningMode;

/* A step whose rows all went on. Valid during the call. Thread: the one that computes. */
typedef struct ExitWatchedStep {
    const DraftTree *tree;
    const float *log_shares; /* f32[n_rows]: the predictor's shares, as tree_pruning_scores() takes them */
    const uint16_t *path;    /* [n_path]: rows by which the text went, row 0 first, tokens past the end among them */
    uint32_t n_path;
} ExitWatchedStep;

typedef void ExitWatchFn(void *arg, const ExitWatchedStep *watched);

/* What pruning did to steps. */
typedef struct ExitReport {
    uint64_t n_trials; /* steps in which the predictor was asked and all rows went on */
    uint64_t n_steps;  /* steps in which rows ended */
    uint64_t n_rows;   /* rows that ended */
    uint64_t ns;       /* duration of asking the predictor */
} ExitReport;

/* Pruning of one or more generations, which it outlives. */
typedef struct ExitPruning {
    EarlyExit *exit; /* outlives the generations */
    ExitPruningMode mode;
    float threshold; /* of EXIT_PRUNING_ALWAYS (tree_pruning.h), below 0; 0: the control's highest */
    ExitWatchFn *on_watched;
    void *on_watched_arg;
    ExitReport report; /* out: sums of all generations */
} ExitPruning;

/* Makes the generations of a lab prune; without a mode or a layer of the predictor, none does. */
void exit_pruning_hook(ExitPruning *pruning, SpecLab *lab);
/* Returns the rule that generations prune by, at that threshold. */
PruningRule exit_pruning_rule(float threshold);

#endif
