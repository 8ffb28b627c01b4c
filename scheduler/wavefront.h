// SPDX-License-Identifier: Apache-2.0
/* Several runs through one list of operators at the same time, each at its own pace, on the threads of a pool.
 *
 * A group is a part of the work that goes through all operators in their order: in a prefill, rows of a chunk. Each
 * operator of a group is one thread's; where the list says so it waits for the group before. So threads need not meet
 * behind every operator, as they do when each operator is split over all of them. */
#ifndef COORDGEN_SCHEDULER_WAVEFRONT_H
#define COORDGEN_SCHEDULER_WAVEFRONT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/worker_pool.h"

#define WAVEFRONT_GROUPS_MAX 64

enum {
    WAVEFRONT_E_STOPPED = 1, /* before the end, because `stops` said so */
};

/* Aligned so that threads do not share a line of the cache. */
typedef struct WavefrontGroup {
    _Alignas(64) _Atomic uint32_t at; /* its next operator */
    _Atomic uint32_t n_ready;         /* operators whose results the group behind can read: `at`, or one more */
    _Atomic bool is_taken;            /* a thread runs it */
} WavefrontGroup;

typedef struct Wavefront {
    WavefrontGroup groups[WAVEFRONT_GROUPS_MAX];
    size_t n_groups;
    uint32_t n_operators;
} Wavefront;

/* Called on any thread of the pool, for one operator of a group at a time. */
typedef struct WavefrontWork {
    /* Runs the operator at `at`, and those behind it that run with it as one: how many that were; or -errno. */
    int (*run)(void *arg, size_t group, uint32_t at, unsigned int worker);
    /* Whether the operator needs what the group before makes in it, too; not asked of the first group. */
    bool (*waits)(void *arg, size_t group, uint32_t at);
    /* Whether everybody stops before the next operator; asked after every one. */
    bool (*stops)(void *arg);
    void *arg;
} WavefrontWork;

/* All groups (1..WAVEFRONT_GROUPS_MAX) before the first of n_operators operators. */
void wavefront_begin(Wavefront *front, size_t n_groups, uint32_t n_operators);
/* From within `run`: what the group behind needs of this operator is there, before the operator has ended. */
void wavefront_ready(Wavefront *front, size_t group);
/* Whether all groups are behind the last operator. Thread: the pool's caller, as below. */
bool wavefront_has_ended(const Wavefront *front);
/* Goes on from where the groups are; at least one operator runs. 0: all are at the end; WAVEFRONT_E_STOPPED; the -errno
 * of an operator, which has not moved its group. */
int wavefront_run(Wavefront *front, WorkerPool *pool, const WavefrontWork *work);

#endif
