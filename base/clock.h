// SPDX-License-Identifier: Apache-2.0
#ifndef COORDGEN_BASE_CLOCK_H
#define COORDGEN_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns monotonic time in ns; only differences have a meaning. */
static inline uint64_t clock_now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Returns the CPU time of the calling thread in ns, which other work on the machine does not lengthen. */
static inline uint64_t clock_thread_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
