// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/system/thread.h"

#include <signal.h>

#include "base/cleanup.h"
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

unsigned int thread_n_processors(void) {
    MachineLimits limits;

    machine_limits_read(&limits);
    return limits.n_processors;
}
