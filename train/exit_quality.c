// SPDX-License-Identifier: Apache-2.0
#include "train/exit_quality.h"

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
    return score.by_q * edge->log_q + score.by_lens * edge->log_lens + score.by_map * edge->log_map +
           score.by_map_alone * edge->log_map_alone;
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

float exit_edges_weight(const ExitEdges *edges, bool lens) {
    static const float tried[] = { 0, 0.05F, 0.1F, 0.15F, 0.2F, 0.3F, 0.4F, 0.6F, 0.8F, 1, 1.5F, 2, 3 };
    float best = 0;
    double least = 3;

    for (size_t i = 0; i < ARRAY_LEN(tried); i++) {
        const ExitScore score = { 1, lens ? tried[i] : 0, lens ? 0 : tried[i], 0 };
        const double kept =
            exit_edges_kept(edges, true, score, 0.95, NULL) + exit_edges_kept(edges, true, score, 0.98, NULL);

        if (kept < least) {
            least = kept;
            best = tried[i];
        }
    }
    return best;
}
