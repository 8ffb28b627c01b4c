// SPDX-License-Identifier: Apache-2.0
/*
 * The model of a disk is a latency, which reads under way share in time, and a line that passes their bytes one after
 * the other. A read enters the line `latency` after its submission, or when the reads before it have passed. The read
 * is done when its own bytes have passed.
 *
 * The limiter is a token bucket without tokens: idle time is lost, as on a disk. The bytes done in any time are at
 * most the rate times that time, plus one read. The time of a read follows from the read before, not from the moment
 * of a look, so delays don't add up as long as reads are submitted ahead.
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

/* Returns the time of len_bytes on the line, rounded up. Whole seconds are computed apart, and rates above 16 GB/s in
 * thousands, so that nothing overflows. */
static uint64_t passing_ns(uint64_t len_bytes, uint64_t bytes_per_s) {
    const uint64_t seconds = len_bytes / bytes_per_s;
    const uint64_t scale = bytes_per_s >> 34 ? 1000 : 1;
    const uint64_t rest = len_bytes % bytes_per_s / scale, rate = bytes_per_s / scale;

    return seconds * NS_PER_S + (rest * NS_PER_S + rate - 1) / rate;
}

/**
 * read_limiter_ask() - tell when a read that is submitted now will be done
 *
 * Thread: one at a time. Time O(1), allocates nothing.
 * Return: ns of the limiter's clock; 0 without a limit, a time that has always passed.
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
