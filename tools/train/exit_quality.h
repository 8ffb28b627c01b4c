// SPDX-License-Identifier: Apache-2.0
/* How well scores tell true edges from others: which share of all edges must be kept to keep a share of the true
 * ones. */
#ifndef COORDGEN_TRAIN_EXIT_QUALITY_H
#define COORDGEN_TRAIN_EXIT_QUALITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "spec/tree/tree_pruning.h"

#define EXIT_EDGE_LEAST 0.02F /* share by the draft of a candidate that a tree has */

typedef struct ExitEdge {
    float log_q;                            /* by the draft, of all its tokens */
    float log_lens, log_map, log_map_alone; /* among all candidates; the last one: among those that a tree has */
    bool is_true;                           /* the target's first choice */
    bool tunes;                             /* else it is for figures */
} ExitEdge;

/* Embedded. */
typedef struct ExitEdges {
    ExitEdge *edges; /* [n] */
    size_t n, room;
} ExitEdges;

int exit_edges_add(ExitEdges *edges, const ExitEdge *edge); /* 0, -ENOMEM */
void exit_edges_deinit(ExitEdges *edges);

/* A score: by_q log q + by_lens log lens + by_map log map; or what a mixture makes of q and the map's share. */
typedef struct ExitScore {
    float by_q, by_lens, by_map;
    const PruningMix *mix; /* NULL: none */
    bool alone;            /* of the map's share among the candidates of a tree, for the mixture */
} ExitScore;

/* Share of all edges of that half whose score is at least the lowest that keeps `share` of the true ones; 1 without
 * true ones. *thresholdp gets that score; may be NULL. */
double exit_edges_kept(const ExitEdges *edges, bool tunes, ExitScore score, double share, float *thresholdp);
/* The mixture under which the half that tunes is most likely. A power that came out below 0 is 0. */
PruningMix exit_edges_fit(const ExitEdges *edges, bool alone);

#endif
