// SPDX-License-Identifier: Apache-2.0
/* The policy of processors that are all alike: several groups go through a graph of operators at the same time, each at
 * its own pace, on the threads of a pool.
 *
 * A group is a part of the work that goes through all nodes in their order, layer by layer: in a prefill, rows of a
 * chunk. Each node of a group is run by one thread; a node that follows earlier rows waits for the group before.
 * Threads need not meet behind every operator, as they do when each operator is split over all threads. */
#ifndef COORDGEN_SCHEDULER_WAVEFRONT_H
#define COORDGEN_SCHEDULER_WAVEFRONT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/system/worker_pool.h"
#include "scheduler/operators/op_graph.h"

#define WAVEFRONT_GROUPS_MAX 64

enum {
    WAVEFRONT_E_STOPPED = 1, /* before the end, because `stops` said so */
};

/* Aligned to a cache line, so that threads do not share one. */
typedef struct WavefrontGroup {
    _Alignas(64) _Atomic uint32_t at; /* its next node, layers * nodes of the graph + node */
    _Atomic uint32_t n_ready;         /* nodes whose results the next group can read: `at`, or one more */
    _Atomic bool is_taken;            /* a thread runs the group */
    bool continues;                   /* the group continues the sequence of the group before */
} WavefrontGroup;

typedef struct Wavefront {
    WavefrontGroup groups[WAVEFRONT_GROUPS_MAX];
    size_t n_groups;
    const OpGraph *graph;
    uint32_t n_nodes; /* that a group goes through: layers * nodes of the graph */
} Wavefront;

/* Callbacks, on any thread of the pool, for one node of a group at a time. */
typedef struct WavefrontWork {
    /* Runs a node of the graph in a layer, which counts from 0. 0 or -errno. */
    int (*run)(void *arg, size_t group, uint32_t layer, size_t node, unsigned int worker);
    /* Whether everybody stops before the next node; asked after every one. */
    bool (*stops)(void *arg);
    void *arg;
} WavefrontWork;

/* Puts all groups (1..WAVEFRONT_GROUPS_MAX) before the first node of n_layers layers. The graph outlives the front. */
void wavefront_begin(Wavefront *front, const OpGraph *graph, size_t n_groups, uint32_t n_layers);
/* Marks a group, not the first one, as continuing the sequence of the group before: in nodes that follow, it waits for
 * that group. */
void wavefront_continue(Wavefront *front, size_t group);
/* Lets the next group go on before the node has ended: what it needs of this node is stored. Called within `run`. */
void wavefront_ready(Wavefront *front, size_t group);
/* Whether all groups are past the last node. Thread: the pool's caller, as below. */
bool wavefront_has_ended(const Wavefront *front);
/* Runs the groups from where they are; at least one node runs. 0: all are at the end; WAVEFRONT_E_STOPPED; the -errno
 * of a node, whose group stays before it. */
int wavefront_run(Wavefront *front, WorkerPool *pool, const WavefrontWork *work);

#endif
