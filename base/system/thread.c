// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/system/thread.h"

#include <signal.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/system/c_library.h"
#include "base/system/machine_limits.h"

int thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg) {
    static const int faults[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP };
    sigset_t blocked, before;
    int r;

    sigfillset(&blocked);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    r = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!r)
        (void)pthread_setname_np(*thread, name);
    return -r;
}

int thread_begin(Thread *thread, const char *name, void *(*fn)(void *), void *arg) {
    int r = thread_start(&thread->it, name, fn, arg);

    thread->is_started = !r;
    return r;
}

int thread_end(Thread *thread, uint64_t timeout_ms) {
    int r = thread_is_under_way(thread) ? c_library_join_within(thread->it, timeout_ms) : 0;

    thread->is_joined = thread->is_started && !r;
    return r;
}

void thread_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int thread_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until_ns) {
    const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000),
                                    .tv_nsec = (long)(until_ns % 1000000000) };

    return pthread_cond_timedwait(cond, mutex, &until);
}

unsigned int thread_n_processors(void) {
    MachineLimits limits;

    machine_limits_read(&limits);
    return limits.n_processors;
}
