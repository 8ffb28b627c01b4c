// SPDX-License-Identifier: Apache-2.0
/*
 * A disk has a latency, which reads under way have at the same time, and a line that their bytes pass one behind the
 * other. So a read enters the line `latency` after it was asked for, or when those before it have passed, and is done
 * when its own bytes have.
 *
 * This is a token bucket that holds nothing: time in which nothing was asked for is lost, as it is on a disk. What is
 * done in any time is at most the rate times that time and one read. Since a read's time follows from the one before
 * and not from when somebody has looked, being late does not add up as long as reads are asked for ahead.
 */
#include "base/files/read_limiter.h"

#include "base/clock.h"

enum {
    NS_PER_S = 1000000000,
    NS_PER_US = 1000,
};

void read_limiter_init(ReadLimiter *limiter, ReadLimit limit, ReadClockFn *now, void *arg) {
    *limiter = (ReadLimiter){ .limit = limit, .now = now, .arg = arg };
}

void read_limiter_set(ReadLimiter *limiter, ReadLimit limit) {
    limiter->limit = limit;
}

uint64_t read_limiter_now(const ReadLimiter *limiter) {
    return limiter->now ? limiter->now(limiter->arg) : clock_now_ns();
}

/* Whole seconds apart, and rates above 16 GB/s in thousands, so that nothing overflows; rounded up, so that it is never
 * faster. */
static uint64_t passing_ns(uint64_t len_bytes, uint64_t bytes_per_s) {
    const uint64_t seconds = len_bytes / bytes_per_s;
    const uint64_t scale = bytes_per_s >> 34 ? 1000 : 1;
    const uint64_t rest = len_bytes % bytes_per_s / scale, rate = bytes_per_s / scale;

    return seconds * NS_PER_S + (rest * NS_PER_S + rate - 1) / rate;
}

/**
 * read_limiter_ask() - when a read that is asked for now is done
 *
 * Thread: one at a time. Time O(1), allocates nothing.
 * Return: nanoseconds of the limiter's clock; without a limit 0, which has always passed.
 */
uint64_t read_limiter_ask(ReadLimiter *limiter, size_t len_bytes) {
    const ReadLimit *limit = &limiter->limit;
    uint64_t enters_ns;

    if (!limit->bytes_per_s && !limit->latency_us)
        return 0;
    enters_ns = read_limiter_now(limiter) + (uint64_t)limit->latency_us * NS_PER_US;
    if (!limit->bytes_per_s)
        return enters_ns;
    if (enters_ns < limiter->free_ns)
        enters_ns = limiter->free_ns;
    limiter->free_ns = enters_ns + passing_ns(len_bytes, limit->bytes_per_s);
    return limiter->free_ns;
}

void shared_limiter_init(SharedLimiter *shared, ReadLimit limit) {
    pthread_mutex_init(&shared->mutex, NULL);
    read_limiter_init(&shared->limiter, limit, NULL, NULL);
}

void shared_limiter_deinit(SharedLimiter *shared) {
    pthread_mutex_destroy(&shared->mutex);
}

void shared_limiter_set(SharedLimiter *shared, ReadLimit limit) {
    pthread_mutex_lock(&shared->mutex);
    read_limiter_set(&shared->limiter, limit);
    pthread_mutex_unlock(&shared->mutex);
}

uint64_t shared_limiter_ask(SharedLimiter *shared, size_t len_bytes) {
    uint64_t due_ns;

    pthread_mutex_lock(&shared->mutex);
    due_ns = read_limiter_ask(&shared->limiter, len_bytes);
    pthread_mutex_unlock(&shared->mutex);
    return due_ns;
}
