// SPDX-License-Identifier: Apache-2.0
/* Measures how well scores tell true edges from others: the share of all edges that must be kept to keep a share of the
 * true ones. */
#ifndef COORDGEN_TRAIN_EXIT_QUALITY_H
#define COORDGEN_TRAIN_EXIT_QUALITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "tools/exit/tree_pruning.h"

#define EXIT_EDGE_LEAST 0.02F /* least share, by the draft, of a candidate in a tree */

typedef struct ExitEdge {
    float log_q;                            /* log share by the draft, among all tokens */
    float log_lens, log_map, log_map_alone; /* log shares among all candidates; log_map_alone: among those in a tree */
    bool is_true;                           /* the target's first choice */
    bool tunes;                             /* false: the edge is for figures */
} ExitEdge;

/* Embedded. */
typedef struct ExitEdges {
    ExitEdge *edges; /* [n] */
    size_t n, room;
} ExitEdges;

int exit_edges_add(ExitEdges *edges, const ExitEdge *edge); /* 0, -ENOMEM */
void exit_edges_deinit(ExitEdges *edges);

/* A score: by_q log q + by_lens log lens + by_map log map, or a mixture of q and the map's share. */
typedef struct ExitScore {
    float by_q, by_lens, by_map;
    const PruningMix *mix; /* NULL: none */
    bool alone;            /* the mixture takes the map's share among the candidates of a tree */
} ExitScore;

/* Returns the share of a half's edges that must be kept to keep @share of its true ones; 1 without true ones.
 * *thresholdp gets the lowest kept score; may be NULL. */
double exit_edges_kept(const ExitEdges *edges, bool tunes, ExitScore score, double share, float *thresholdp);
/* Returns the mixture that makes the tuning half most likely; powers below 0 become 0. */
PruningMix exit_edges_fit(const ExitEdges *edges, bool alone);

#endif
