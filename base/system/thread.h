// SPDX-License-Identifier: Apache-2.0
#ifndef COORDGEN_BASE_THREAD_H
#define COORDGEN_BASE_THREAD_H

#include <pthread.h>

/* Starts fn(arg) in a thread whose name (up to 15 bytes) `ps -L` and debuggers show. The thread blocks all signals
 * except those of its own faults, so that the threads that wait for signals get them. 0 or -errno. */
int thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

/* Returns the processors that this process may use (base/system/machine_limits.h), at least 1. */
unsigned int thread_n_processors(void);

#endif
