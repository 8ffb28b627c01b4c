// SPDX-License-Identifier: Apache-2.0
/* Worker threads that run one parallel loop at a time for one calling thread. */
#ifndef COORDGEN_BASE_WORKER_POOL_H
#define COORDGEN_BASE_WORKER_POOL_H

#include <stddef.h>

#include "base/cleanup.h"

typedef struct WorkerPool WorkerPool;

/* Called for disjoint ranges [begin, end) that cover [0, n); on any worker or on the calling thread. */
typedef void WorkerFn(void *arg, size_t begin, size_t end, unsigned int worker);

/* n_threads counts the calling thread: 1 starts none. */
int worker_pool_new(WorkerPool **poolp, unsigned int n_threads);
WorkerPool *worker_pool_free(WorkerPool *pool);
DEFINE_CLEANUP(WorkerPool, worker_pool_free)

/* Keeps each worker on a processor of its own, where there are exactly as many threads as processors for this process:
 * then nobody has a better place for them. 0, -errno: nothing changes. */
int worker_pool_pin(WorkerPool *pool);
/* Between the two somebody reads files, as others may: the kernel's threads for that take the processor from the caller
 * for moments, which says nothing about the workers. How long it waits for them counts as ever. Thread: the caller. */
void worker_pool_begin_reading(WorkerPool *pool);
void worker_pool_end_reading(WorkerPool *pool);
unsigned int worker_pool_n_threads(const WorkerPool *pool);
/* Splits [0, n) into ranges whose borders are multiples of grain; returns when all are done. One caller at a time. */
void worker_pool_run(WorkerPool *pool, WorkerFn *fn, void *arg, size_t n, size_t grain);

#endif
