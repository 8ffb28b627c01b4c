// SPDX-License-Identifier: Apache-2.0
#ifndef COORDGEN_BASE_THREAD_H
#define COORDGEN_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Starts fn(arg) in a thread of a name (up to 15 bytes, as `ps -L` and debuggers show it). Signals are blocked in it
 * but for those of its own faults: they stay with the threads that wait for them. 0 or -errno. */
int thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

/* A condition variable whose waits end by the clock of clock_now_ns(). */
void thread_cond_init(pthread_cond_t *cond);
/* Waits as pthread_cond_timedwait() does, at most until that moment of clock_now_ns(). 0, ETIMEDOUT. */
int thread_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until_ns);

/* That this process may use (base/system/machine_limits.h); at least 1. */
unsigned int thread_n_processors(void);

#endif
