// SPDX-License-Identifier: Apache-2.0
#include "scheduler/graphs/graph_times.h"

#define NEWEST 0.3 /* weight of the last measurement */

static void note_time(double *ns, double seen_ns) {
    *ns = *ns > 0 ? (1 - NEWEST) * *ns + NEWEST * seen_ns : seen_ns;
}

/* Both kinds have the same number of bytes: the time of one kind is the best guess for the other. */
void graph_times_took_load(GraphTimes *times, GraphKind kind, double ns) {
    const GraphKind other = kind == GRAPH_PREFILL ? GRAPH_DECODE : GRAPH_PREFILL;

    note_time(&times->load_ns[kind], ns);
    if (!(times->load_ns[other] > 0))
        times->load_ns[other] = ns;
}

/* Steps of few rows count only until there is another time: the processors' part of them is small. */
void graph_times_took(GraphTimes *times, GraphKind kind, size_t rows, size_t prefill_rows, size_t decode_rows,
                      double ns) {
    const size_t rows_of_graph = kind == GRAPH_PREFILL ? prefill_rows : decode_rows,
                 pieces = (rows + rows_of_graph - 1) / rows_of_graph;
    const double chunk_ns = ns / (double)pieces * (double)(prefill_rows / rows_of_graph);

    if (2 * rows >= rows_of_graph || !(times->compute_ns[kind] > 0))
        note_time(&times->compute_ns[kind], chunk_ns);
}
