// SPDX-License-Identifier: Apache-2.0
#include "tools/train/exit_quality.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int exit_edges_add(ExitEdges *edges, const ExitEdge *edge) {
    if (edges->n == edges->room) {
        const size_t room = edges->room ? 2 * edges->room : 1024;
        ExitEdge *more = realloc(edges->edges, room * sizeof(*more));

        if (!more)
            return -ENOMEM;
        edges->edges = more;
        edges->room = room;
    }
    edges->edges[edges->n++] = *edge;
    return 0;
}

void exit_edges_deinit(ExitEdges *edges) {
    free(edges->edges);
    *edges = (ExitEdges){ 0 };
}

static float score_of(const ExitEdge *edge, ExitScore score) {
    if (score.mix)
        return tree_pruning_log_chance(*score.mix, edge->log_q, score.alone ? edge->log_map_alone : edge->log_map);
    return score.by_q * edge->log_q + score.by_lens * edge->log_lens + score.by_map * edge->log_map;
}

static int by_falling(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

double exit_edges_kept(const ExitEdges *edges, bool tunes, ExitScore score, double share, float *thresholdp) {
    _cleanup_(freep) float *scores = malloc((edges->n ? edges->n : 1) * sizeof(*scores));
    size_t n_true = 0, n = 0, n_kept = 0;
    float threshold;

    for (size_t i = 0; scores && i < edges->n; i++)
        if (edges->edges[i].tunes == tunes && edges->edges[i].is_true)
            scores[n_true++] = score_of(&edges->edges[i], score);
    if (!n_true)
        return 1;
    qsort(scores, n_true, sizeof(*scores), by_falling);
    threshold = scores[(size_t)ceil(share * (double)n_true) - 1];
    for (size_t i = 0; i < edges->n; i++) {
        if (edges->edges[i].tunes != tunes)
            continue;
        n++;
        n_kept += score_of(&edges->edges[i], score) >= threshold;
    }
    if (thresholdp)
        *thresholdp = threshold;
    return (double)n_kept / (double)n;
}

/* --- the mixture: logistic regression by Newton's steps ----------------------------------------------------------- */

enum {
    FIT_N = 3, /* log odds of q and of the share, and 1 */
    FIT_STEPS = 25
};

static const double fit_before[FIT_N] = { 1, 0, 0 };
static const double fit_damping = 1; /* damping of the squares, without which perfectly separated edges have no bound */

typedef struct Fit {
    double at[FIT_N], slope[FIT_N], bend[FIT_N][FIT_N];
    bool is_fixed[FIT_N]; /* at 0 */
} Fit;

static void fit_slopes(Fit *fit, const ExitEdges *edges, bool alone) {
    for (size_t i = 0; i < FIT_N; i++) {
        fit->slope[i] = fit_damping * (fit_before[i] - fit->at[i]);
        for (size_t j = 0; j < FIT_N; j++)
            fit->bend[i][j] = i == j ? fit_damping : 0;
    }
    for (size_t e = 0; e < edges->n; e++) {
        const ExitEdge *edge = &edges->edges[e];
        const double x[FIT_N] = { tree_pruning_log_odds(edge->log_q),
                                  tree_pruning_log_odds(alone ? edge->log_map_alone : edge->log_map), 1 };
        double chance, z = 0;

        if (!edge->tunes)
            continue;
        for (size_t i = 0; i < FIT_N; i++)
            z += fit->at[i] * x[i];
        chance = 1 / (1 + exp(-z));
        for (size_t i = 0; i < FIT_N; i++) {
            fit->slope[i] += x[i] * (edge->is_true - chance);
            for (size_t j = 0; j < FIT_N; j++)
                fit->bend[i][j] += x[i] * x[j] * chance * (1 - chance);
        }
    }
}

/* Takes one Newton step of the free parameters; returns its length. */
static double fit_step(Fit *fit) {
    double a[FIT_N][FIT_N + 1], far = 0;

    for (size_t i = 0; i < FIT_N; i++) {
        for (size_t j = 0; j < FIT_N; j++)
            a[i][j] = fit->is_fixed[i] || fit->is_fixed[j] ? i == j : fit->bend[i][j];
        a[i][FIT_N] = fit->is_fixed[i] ? 0 : fit->slope[i];
    }
    for (size_t i = 0; i < FIT_N; i++) /* the Hessian is positive definite: no pivot is 0 */
        for (size_t row = 0; row < FIT_N; row++) {
            const double by = row == i ? 0 : a[row][i] / a[i][i];

            for (size_t j = i; j <= FIT_N; j++)
                a[row][j] -= by * a[i][j];
        }
    for (size_t i = 0; i < FIT_N; i++) {
        const double step = fmax(-1, fmin(1, a[i][FIT_N] / a[i][i]));

        fit->at[i] += step;
        far = fmax(far, fabs(step));
    }
    return far;
}

PruningMix exit_edges_fit(const ExitEdges *edges, bool alone) {
    Fit fit = { .at = { 1, 0, 0 } };

    for (size_t fixed = 0; fixed <= FIT_N - 1; fixed++) {
        for (uint32_t step = 0; step < FIT_STEPS; step++) {
            fit_slopes(&fit, edges, alone);
            if (fit_step(&fit) < 1e-9)
                break;
        }
        if (fit.at[0] >= 0 && fit.at[1] >= 0)
            break;
        for (size_t i = 0; i < FIT_N - 1; i++)
            if (fit.at[i] < 0) {
                fit.is_fixed[i] = true;
                fit.at[i] = 0;
            }
    }
    return (PruningMix){ (float)fit.at[0], (float)fit.at[1], (float)fit.at[2] };
}
