// SPDX-License-Identifier: Apache-2.0
/* How long a block of layers takes with its static graphs: measured while blocks are loaded and computed. */
#ifndef COORDGEN_SCHEDULER_GRAPH_TIMES_H
#define COORDGEN_SCHEDULER_GRAPH_TIMES_H

#include <stddef.h>

typedef enum GraphKind {
    GRAPH_PREFILL,
    GRAPH_DECODE,
    _GRAPH_KIND_N,
    GRAPH_NONE = _GRAPH_KIND_N,
} GraphKind;

/* Times of one block, in nanoseconds; 0: not known yet. */
typedef struct GraphTimes {
    double compute_ns[_GRAPH_KIND_N]; /* a chunk of a prompt through the block, with this kind */
    double load_ns[_GRAPH_KIND_N];
} GraphTimes;

/* Records the time of a load. */
void graph_times_took_load(GraphTimes *times, GraphKind kind, double ns);
/* Records the time that a step of so many rows took through a block. Graphs of prompts have prefill_rows, those of
 * decoding decode_rows. */
void graph_times_took(GraphTimes *times, GraphKind kind, size_t rows, size_t prefill_rows, size_t decode_rows,
                      double ns);

#endif
