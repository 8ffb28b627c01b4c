// SPDX-License-Identifier: Apache-2.0
/* Records steps of real generations without pruning, with the predictor's opinion, to compute what a rule of pruning
 * would have kept of the same trees. */
#ifndef COORDGEN_TRAIN_EXIT_WATCH_H
#define COORDGEN_TRAIN_EXIT_WATCH_H

#include "base/cleanup.h"
#include "engine/generation.h"
#include "tools/exit/exit_pruning.h"

enum {
    EXIT_TILE_ROWS = 16 /* rows that a matrix unit computes in the time of one */
};

/* A recorded step. */
typedef struct ExitWatched {
    DraftTree tree;
    float log_shares[DRAFT_ROWS_MAX];
    uint64_t path; /* bits of the rows on the accepted path, with row 0 */
    bool tunes;    /* false: the step is for figures */
} ExitWatched;

/* Embedded in its owner; all zero: no steps yet. */
typedef struct ExitWatch {
    ExitWatched *steps; /* [n] */
    size_t n, room;
    bool tunes;  /* steps that come */
    bool failed; /* there was no memory for one */
} ExitWatch;

/* A rule of pruning. */
typedef struct ExitWay {
    PruningMix mix;
    bool alone;     /* shares among the tree's candidates alone, without shadows */
    bool unguarded; /* by the threshold alone */
} ExitWay;

/* Shares over all steps of a half: rows that went on, alone and rounded up to tiles; right drafts; tokens a step (one
 * more than these drafts). A share of nothing is 1. */
typedef struct ExitKept {
    float threshold;
    double rows, tiles, drafts, tokens;
} ExitKept;

void exit_watch_deinit(ExitWatch *watch);
/* Records a step, as ExitPruning.on_watched; @arg is an ExitWatch. */
void exit_watch_take(void *arg, const ExitWatchedStep *watched);
ExitKept exit_watch_kept(const ExitWatch *watch, bool tunes, const ExitWay *way, float threshold);
/* Returns the highest threshold, at most -0.01, that keeps a share of the tuning half's right drafts. */
float exit_watch_threshold(const ExitWatch *watch, const ExitWay *way, double share);

#endif
