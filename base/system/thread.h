// SPDX-License-Identifier: Apache-2.0
#ifndef COORDGEN_BASE_THREAD_H
#define COORDGEN_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts fn(arg) in a thread whose name (up to 15 bytes) `ps -L` and debuggers show. The thread blocks all signals
 * except those of its own faults, so that the threads that wait for signals get them. 0 or -errno. */
int thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

/* A thread of an owner, which starts and ends it. Zero: not started. Its owner's. */
typedef struct Thread {
    pthread_t it;
    bool is_started, is_joined;
} Thread;

int thread_begin(Thread *thread, const char *name, void *(*fn)(void *), void *arg); /* as thread_start() */
/* Whether it was started, and not joined yet. */
static inline bool thread_is_under_way(const Thread *thread) {
    return thread->is_started && !thread->is_joined;
}
/* Joins the thread, which was asked to end, if it is under way. 0, -errno; -ETIMEDOUT: it still runs. */
int thread_end(Thread *thread, uint64_t timeout_ms);

/* Makes a condition variable whose waits end by the clock of clock_now_ns(). */
void thread_cond_init(pthread_cond_t *cond);
/* Waits as pthread_cond_timedwait() does, at most until that moment of clock_now_ns(). 0, ETIMEDOUT. */
int thread_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until_ns);

/* Returns the processors that this process may use (base/system/machine_limits.h), at least 1. */
unsigned int thread_n_processors(void);

#endif
