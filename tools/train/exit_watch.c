// SPDX-License-Identifier: Apache-2.0
#include "tools/train/exit_watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float highest = -0.01F, lowest = -64;

void exit_watch_deinit(ExitWatch *watch) {
    free(watch->steps);
    *watch = (ExitWatch){ 0 };
}

void exit_watch_take(void *arg, const ExitWatchedStep *watched) {
    ExitWatch *watch = arg;
    ExitWatched *step;

    if (watch->n == watch->room) {
        const size_t room = watch->room ? 2 * watch->room : 64;
        ExitWatched *more = realloc(watch->steps, room * sizeof(*more));

        watch->failed |= !more;
        if (!more)
            return;
        watch->steps = more;
        watch->room = room;
    }
    step = &watch->steps[watch->n++];
    step->tree = *watched->tree;
    memcpy(step->log_shares, watched->log_shares, watched->tree->n_rows * sizeof(float));
    step->path = 0;
    for (uint32_t i = 0; i < watched->n_path; i++)
        step->path |= UINT64_C(1) << watched->path[i];
    step->tunes = watch->tunes;
}

/* Normalizes shares among siblings alone. */
static void share_alone(const ExitWatched *step, float *log_shares) {
    const DraftTree *tree = &step->tree;

    for (uint32_t row = 1; row < tree->n_rows; row++) {
        double sum = 0;

        for (uint32_t other = 1; other < tree->n_rows; other++)
            if (tree->parents[other] == tree->parents[row])
                sum += exp((double)step->log_shares[other] - (double)step->log_shares[row]);
        log_shares[row] = (float)-log(sum);
    }
}

static uint32_t rows_kept(const ExitWatched *step, const ExitWay *way, float threshold, uint16_t *rows) {
    const PruningRule rule = way->unguarded ? (PruningRule){ .threshold = threshold } : exit_pruning_rule(threshold);
    float alone[DRAFT_ROWS_MAX] = { 0 }, scores[DRAFT_ROWS_MAX];

    if (way->alone)
        share_alone(step, alone);
    tree_pruning_scores(&step->tree, way->alone ? alone : step->log_shares, way->mix, scores);
    return tree_pruning(&step->tree, scores, &rule, (DraftCosts){ 0 }, rows);
}

static uint32_t in_tiles(uint32_t n) {
    return (n + EXIT_TILE_ROWS - 1) / EXIT_TILE_ROWS * EXIT_TILE_ROWS;
}

static double part(uint64_t of, uint64_t by) {
    return by ? (double)of / (double)by : 1;
}

ExitKept exit_watch_kept(const ExitWatch *watch, bool tunes, const ExitWay *way, float threshold) {
    uint64_t n_rows = 0, n_kept = 0, n_tiles = 0, n_kept_tiles = 0, n_right = 0, n_kept_right = 0, n_steps = 0;

    for (size_t i = 0; i < watch->n; i++) {
        const ExitWatched *step = &watch->steps[i];
        uint16_t rows[DRAFT_ROWS_MAX];
        uint32_t n;

        if (step->tunes != tunes)
            continue;
        n = rows_kept(step, way, threshold, rows);
        n_steps++;
        n_rows += step->tree.n_rows;
        n_kept += n;
        n_tiles += in_tiles(step->tree.n_rows);
        n_kept_tiles += in_tiles(n);
        for (uint32_t row = 1; row < step->tree.n_rows; row++)
            n_right += step->path >> row & 1;
        for (uint32_t at = 1; at < n; at++) /* a kept row's parents are kept, so the beginning of a path stays */
            n_kept_right += step->path >> rows[at] & 1;
    }
    return (ExitKept){ threshold, part(n_kept, n_rows), part(n_kept_tiles, n_tiles), part(n_kept_right, n_right),
                       part(n_kept_right + n_steps, n_right + n_steps) };
}

/* Bisection works because a lower threshold keeps all that a higher one keeps. */
float exit_watch_threshold(const ExitWatch *watch, const ExitWay *way, double share) {
    float low = lowest, high = highest;

    if (exit_watch_kept(watch, true, way, high).drafts >= share)
        return high;
    for (int i = 0; i < 24; i++) {
        const float middle = (low + high) / 2;

        if (exit_watch_kept(watch, true, way, middle).drafts >= share)
            low = middle;
        else
            high = middle;
    }
    return low;
}
