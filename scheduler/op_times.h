// SPDX-License-Identifier: Apache-2.0
/* The profile of a graph's nodes on two kinds of processors: how long each takes, by who runs it. It is measured while
 * the nodes run, and follows them slowly. */
#ifndef COORDGEN_SCHEDULER_OP_TIMES_H
#define COORDGEN_SCHEDULER_OP_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/op_graph.h"

/* Times that make a profile; of the first ones the shortest counts, for they may have waited for memory. */
#define OP_TIMES_FIRST 3

typedef enum OpQueue {
    OP_QUEUE_NPU,
    OP_QUEUE_CPU,
    _OP_QUEUE_N,
} OpQueue;

/* In nanoseconds, for as many rows as a graph has; 0: not known yet. */
typedef struct OpTimes {
    double ns[_OP_QUEUE_N][OP_GRAPH_NODES_MAX];
    /* What the processors do before and behind a product, whoever multiplies. It differs from layer to layer, the
     * product itself does not. */
    double begin_ns[OP_GRAPH_NODES_MAX], end_ns[OP_GRAPH_NODES_MAX];
    uint32_t n[_OP_QUEUE_N][OP_GRAPH_NODES_MAX]; /* measured so many times */
    uint32_t n_beside[OP_GRAPH_NODES_MAX];
} OpTimes;

void op_times_took(OpTimes *times, OpQueue by, size_t node, uint64_t ns);
/* Beside a product. */
void op_times_took_beside(OpTimes *times, size_t node, uint64_t begin_ns, uint64_t end_ns);
/* Whether enough is known of these nodes, a bit each, on that side. */
bool op_times_know(const OpTimes *times, OpQueue by, uint64_t nodes);

#endif
