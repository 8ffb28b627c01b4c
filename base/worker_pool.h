// SPDX-License-Identifier: Apache-2.0
/* Worker threads that run one parallel loop at a time for one calling thread. */
#ifndef COORDGEN_BASE_WORKER_POOL_H
#define COORDGEN_BASE_WORKER_POOL_H

#include <stddef.h>

#include "base/cleanup.h"

enum {
    WORKER_POOL_E_PROCESSORS = 1, /* fewer processors for this process than threads in the pool */
};

typedef struct WorkerPool WorkerPool;

/* Whether workers stay on a processor each. */
typedef enum WorkerPinning {
    WORKER_PINNING_AUTO, /* when there are exactly as many threads as processors: then nobody has a better place for
                          * them */
    WORKER_PINNING_NO,
    WORKER_PINNING_YES,
} WorkerPinning;

/* Called for disjoint ranges [begin, end) that cover [0, n); on any worker or on the calling thread. */
typedef void WorkerFn(void *arg, size_t begin, size_t end, unsigned int worker);

/* n_threads counts the calling thread: 1 starts none. */
int worker_pool_new(WorkerPool **poolp, unsigned int n_threads);
WorkerPool *worker_pool_free(WorkerPool *pool);
DEFINE_CLEANUP(WorkerPool, worker_pool_free)

/* 0; WORKER_POOL_E_PROCESSORS (of WORKER_PINNING_YES), -errno: nothing changes. */
int worker_pool_pin(WorkerPool *pool, WorkerPinning pinning);
unsigned int worker_pool_n_threads(const WorkerPool *pool);
/* Splits [0, n) into ranges whose borders are multiples of grain; returns when all are done. One caller at a time. */
void worker_pool_run(WorkerPool *pool, WorkerFn *fn, void *arg, size_t n, size_t grain);

#endif
