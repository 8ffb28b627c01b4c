// SPDX-License-Identifier: Apache-2.0
/* Makes a fast disk behave like a slower one: tells for each read when it counts as done. */
#ifndef COORDGEN_BASE_READ_LIMITER_H
#define COORDGEN_BASE_READ_LIMITER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* The speed of the slower disk. Zero: no limit. */
typedef struct ReadLimit {
    uint64_t bytes_per_s;
    uint32_t latency_us; /* of every read */
} ReadLimit;

typedef uint64_t ReadClockFn(void *arg); /* ns from any beginning, monotonic */

typedef struct ReadLimiter {
    ReadLimit limit;
    ReadClockFn *now;
    void *arg;
    uint64_t free_ns; /* the time when all submitted reads have passed the line */
} ReadLimiter;

/* Starts a limiter with the clock now(arg), or clock_now_ns() if now is NULL. Nothing is to be freed. */
void read_limiter_init(ReadLimiter *limiter, ReadLimit limit, ReadClockFn *now, void *arg);
/* Sets the limit of later reads. */
void read_limiter_set(ReadLimiter *limiter, ReadLimit limit);
/* Returns the earliest time, by the clock, when a read submitted now is done; 0: at once. */
uint64_t read_limiter_ask(ReadLimiter *limiter, size_t len_bytes);
uint64_t read_limiter_now(const ReadLimiter *limiter);

/* A limiter of one disk that several threads read. */
typedef struct SharedLimiter {
    pthread_mutex_t mutex;
    ReadLimiter limiter;
} SharedLimiter;

void shared_limiter_init(SharedLimiter *shared, ReadLimit limit);
void shared_limiter_deinit(SharedLimiter *shared);
/* Do what the functions of ReadLimiter do. Any thread. */
void shared_limiter_set(SharedLimiter *shared, ReadLimit limit);
uint64_t shared_limiter_ask(SharedLimiter *shared, size_t len_bytes);

#endif
