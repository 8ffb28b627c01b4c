// SPDX-License-Identifier: Apache-2.0
/* A pool of workers that has learned to do without them. */
#ifndef COORDGEN_TEST_POOL_ALONE_H
#define COORDGEN_TEST_POOL_ALONE_H

#include "base/system/worker_pool.h"

/* Workers hold the caller up until the pool has done without them four loops in a row: for a while it goes on so. */
void pool_alone_teach(WorkerPool *pool);

void sleep_ms(long ms);

#endif
