// SPDX-License-Identifier: Apache-2.0
/* The profile of a graph's nodes on two kinds of processors: how long each node takes on each side. Times are measured
 * while the nodes run, and the profile follows them slowly. */
#ifndef COORDGEN_SCHEDULER_OP_TIMES_H
#define COORDGEN_SCHEDULER_OP_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/operators/op_graph.h"

/* Number of times that make a profile. The shortest of them counts, for the first ones may have waited for memory. */
#define OP_TIMES_FIRST 3

/* Positions that the rows of a profile read, on average. */
#define OP_TIMES_POSITIONS 1024

typedef enum OpQueue {
    OP_QUEUE_NPU,
    OP_QUEUE_CPU,
    _OP_QUEUE_N,
} OpQueue;

/* In nanoseconds, for as many rows as a graph has, and attention of these rows to OP_TIMES_POSITIONS; 0: not known yet.
 */
typedef struct OpTimes {
    double ns[_OP_QUEUE_N][OP_GRAPH_NODES_MAX]; /* attention on the NPU's side: both sides work at it, together */
    /* Work of the processors before and after a product, whichever side multiplies. This work differs from layer to
     * layer, the product itself does not. */
    double begin_ns[OP_GRAPH_NODES_MAX], end_ns[OP_GRAPH_NODES_MAX];
    uint32_t n[_OP_QUEUE_N][OP_GRAPH_NODES_MAX]; /* number of measurements, counted up to OP_TIMES_FIRST */
    uint32_t n_beside[OP_GRAPH_NODES_MAX];
} OpTimes;

/* Records the time of a node. */
void op_times_took(OpTimes *times, OpQueue by, size_t node, uint64_t ns);
/* Records the work of the processors before and after a product. */
void op_times_took_beside(OpTimes *times, size_t node, uint64_t begin_ns, uint64_t end_ns);
/* Whether these nodes, a bit each, have a profile on that side. */
bool op_times_know(const OpTimes *times, OpQueue by, uint64_t nodes);

#endif
