// SPDX-License-Identifier: Apache-2.0
/* Makes a fast disk behave like a slower one: says of each read when it may be taken for done. */
#ifndef COORDGEN_BASE_READ_LIMITER_H
#define COORDGEN_BASE_READ_LIMITER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* How fast is read at most. Zero: as fast as it is. */
typedef struct ReadLimit {
    uint64_t bytes_per_s;
    uint32_t latency_us; /* of every read */
} ReadLimit;

typedef uint64_t ReadClockFn(void *arg); /* nanoseconds, from any beginning, never backwards */

typedef struct ReadLimiter {
    ReadLimit limit;
    ReadClockFn *now;
    void *arg;
    uint64_t free_ns; /* the reads that were asked for have passed by then */
} ReadLimiter;

/* now(arg) is the clock; NULL: clock_now_ns(). Nothing to free. */
void read_limiter_init(ReadLimiter *limiter, ReadLimit limit, ReadClockFn *now, void *arg);
/* For reads that are asked for from now on. */
void read_limiter_set(ReadLimiter *limiter, ReadLimit limit);
/* A read is asked for now: when it is done, by the clock, at the earliest; 0: at once. */
uint64_t read_limiter_ask(ReadLimiter *limiter, size_t len_bytes);
uint64_t read_limiter_now(const ReadLimiter *limiter);

/* One disk that several threads read. */
typedef struct SharedLimiter {
    pthread_mutex_t mutex;
    ReadLimiter limiter;
} SharedLimiter;

void shared_limiter_init(SharedLimiter *shared, ReadLimit limit);
void shared_limiter_deinit(SharedLimiter *shared);
/* As those above. Thread: any. */
void shared_limiter_set(SharedLimiter *shared, ReadLimit limit);
uint64_t shared_limiter_ask(SharedLimiter *shared, size_t len_bytes);

#endif
