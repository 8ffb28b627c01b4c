// SPDX-License-Identifier: Apache-2.0
/* Steps of real generations whose rows all went on, with what the predictor said of them: what a rule of pruning would
 * have kept of the very same trees. */
#ifndef COORDGEN_TRAIN_EXIT_WATCH_H
#define COORDGEN_TRAIN_EXIT_WATCH_H

#include "base/cleanup.h"
#include "engine/generation.h"
#include "spec/tree/tree_pruning.h"

enum {
    EXIT_TILE_ROWS = 16 /* that a matrix unit computes in the time of one */
};

/* One step. */
typedef struct ExitWatched {
    DraftTree tree;
    float log_shares[DRAFT_ROWS_MAX];
    uint64_t path; /* its rows, as bits; row 0 among them */
    bool tunes;    /* else it is for figures */
} ExitWatched;

/* Embedded; all zero: none yet. */
typedef struct ExitWatch {
    ExitWatched *steps; /* [n] */
    size_t n, room;
    bool tunes;  /* steps that come */
    bool failed; /* there was no memory for one */
} ExitWatch;

/* How trees are pruned. */
typedef struct ExitWay {
    PruningMix mix;
    bool alone;     /* shares among the candidates that the tree has: without shadows */
    bool unguarded; /* by the threshold alone */
} ExitWay;

/* Of all steps of a half: shares of the rows that went on, as they are and as tiles round them up, of the drafts that
 * were right, and of the tokens a step (one more than these drafts). 1 where there is nothing. */
typedef struct ExitKept {
    float threshold;
    double rows, tiles, drafts, tokens;
} ExitKept;

void exit_watch_deinit(ExitWatch *watch);
/* SpecLab.on_watched; arg: an ExitWatch. */
void exit_watch_take(void *arg, const SpecWatched *watched);
ExitKept exit_watch_kept(const ExitWatch *watch, bool tunes, const ExitWay *way, float threshold);
/* The highest threshold, at most -0.01, that keeps a share of the right drafts of the half that tunes. */
float exit_watch_threshold(const ExitWatch *watch, const ExitWay *way, double share);

#endif
