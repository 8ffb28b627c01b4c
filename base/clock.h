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

#endif
