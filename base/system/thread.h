// SPDX-License-Identifier: Apache-2.0
#ifndef COORDGEN_BASE_THREAD_H
#define COORDGEN_BASE_THREAD_H

#include <pthread.h>

/* Starts fn(arg) in a thread of a name (up to 15 bytes, as `ps -L` and debuggers show it). Signals are blocked in it
 * but for those of its own faults: they stay with the threads that wait for them. 0 or -errno. */
int thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

/* That this process may use (base/system/machine_limits.h); at least 1. */
unsigned int thread_n_processors(void);

#endif
