// SPDX-License-Identifier: Apache-2.0
/* Worker threads that run one parallel loop at a time for one calling thread. */
#ifndef COORDGEN_BASE_WORKER_POOL_H
#define COORDGEN_BASE_WORKER_POOL_H

#include <stddef.h>

#include "base/cleanup.h"

typedef struct WorkerPool WorkerPool;

/* Computes the range [begin, end), on a worker or the calling thread. The ranges are disjoint and cover [0, n). */
typedef void WorkerFn(void *arg, size_t begin, size_t end, unsigned int worker);

/* Makes a pool of n_threads threads, the calling one included. 0, -EINVAL, -ENOMEM or -errno. */
int worker_pool_new(WorkerPool **poolp, unsigned int n_threads);
WorkerPool *worker_pool_free(WorkerPool *pool);
DEFINE_CLEANUP(WorkerPool, worker_pool_free)

/* Keeps each worker on a processor of its own, if there are as many threads as processors for this process. 0, or
 * -errno with nothing changed. */
int worker_pool_pin(WorkerPool *pool);
/* Bracket a time in which threads read files. The kernel's readers then preempt the caller for moments, which tells
 * nothing about the workers; waits for workers still count. Thread: the caller. */
void worker_pool_begin_reading(WorkerPool *pool);
void worker_pool_end_reading(WorkerPool *pool);
unsigned int worker_pool_n_threads(const WorkerPool *pool);
/* Calls fn for ranges that cover [0, n), whose borders are multiples of grain. Returns when all are done. One caller
 * at a time. */
void worker_pool_run(WorkerPool *pool, WorkerFn *fn, void *arg, size_t n, size_t grain);

#endif
