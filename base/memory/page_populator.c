// SPDX-License-Identifier: Apache-2.0
/*
 * A load writes matrices into untouched memory. On a virtual machine whose host takes free memory back, touching that
 * memory is most of the load's time, some 10 us a page. A thread therefore touches the memory ahead of the load.
 *
 * The thread goes through memory in the order of use, a huge page at a time. While huge pages come soon, it runs at
 * normal priority and gets far ahead. When they become slow, it continues with small pages, which come from pieces
 * that are partly in use and that the host left alone. The thread then takes the lowest priority, so that only an idle
 * processor searches for memory. The first pages say little: memory that was freed a moment before comes first, and
 * soon.
 */
#define _GNU_SOURCE
#include "base/memory/page_populator.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/min_max.h"
#include "base/system/kernel_call.h"
#include "base/system/thread.h"

enum {
    DEAR_NS = 1500000, /* for a huge page, or 0.75 s a GB; zeroing takes a tenth of that */
    DEAR_LIMIT = 2,    /* slow pages in a row; an interrupt may slow a single one */
};

struct PagePopulator {
    PageRange *ranges;
    size_t n;
    pthread_t thread;
    bool has_joined;
    _Atomic bool is_stopping;
    /* Used by the thread alone until it has ended: */
    size_t done_bytes;
    unsigned int n_dear; /* slow huge pages in a row */
    bool gave_huge_up;
};

bool page_populator_is_dear(uint64_t huge_page_ns) {
    return huge_page_ns > DEAR_NS;
}

static const size_t huge_bytes = (size_t)2 << 20;
static const size_t small_bytes = (size_t)64 << 10; /* one step over small pages */

/* Asks for small pages in the rest of this range. */
static void give_huge_up(PagePopulator *populator, const PageRange *range, size_t at_bytes) {
    const struct sched_param idle = { .sched_priority = 0 };

    if (range->is_huge)
        (void)madvise(range->data + at_bytes, range->len_bytes - at_bytes, MADV_NOHUGEPAGE);
    if (!populator->gave_huge_up)
        (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &idle);
    populator->gave_huge_up = true;
}

/* Returns the bytes of the next step: up to the first huge page, then one huge page. Steps over small pages are far
 * shorter, because the kernel blocks maps of the process during a step, and a thread of the lowest priority is slow. */
static size_t step_of(const PagePopulator *populator, const PageRange *range, size_t at_bytes) {
    const size_t unit_bytes = populator->gave_huge_up ? small_bytes : huge_bytes,
                 step_bytes = unit_bytes - (uintptr_t)(range->data + at_bytes) % unit_bytes;

    return MIN(range->len_bytes - at_bytes, step_bytes);
}

/* Touches a range. 0, or -errno if the system has no memory left or no such call. */
static int populate_range(PagePopulator *populator, const PageRange *range) {
    size_t step_bytes;

    if (populator->gave_huge_up)
        give_huge_up(populator, range, 0);
    for (size_t at = 0; at < range->len_bytes && !atomic_load(&populator->is_stopping); at += step_bytes) {
        const uint64_t start_ns = clock_now_ns();

        step_bytes = step_of(populator, range, at);
        if (madvise(range->data + at, step_bytes, MADV_POPULATE_WRITE))
            return -errno;
        populator->done_bytes += step_bytes;
        if (populator->gave_huge_up || step_bytes < huge_bytes)
            continue;
        populator->n_dear = page_populator_is_dear(clock_now_ns() - start_ns) ? populator->n_dear + 1 : 0;
        if (populator->n_dear == DEAR_LIMIT)
            give_huge_up(populator, range, at + step_bytes);
    }
    return 0;
}

static void *populate_main(void *arg) {
    PagePopulator *populator = arg;

    for (size_t i = 0; i < populator->n && !atomic_load(&populator->is_stopping); i++)
        if (populate_range(populator, &populator->ranges[i]))
            break;
    return NULL;
}

int page_populator_new(PagePopulator **populatorp, const PageRange *ranges, size_t n) {
    PagePopulator *populator = calloc(1, sizeof(*populator));
    int r;

    if (!populator || !(populator->ranges = calloc(n + 1, sizeof(*ranges)))) {
        free(populator);
        return err_raise(-ENOMEM);
    }
    memcpy(populator->ranges, ranges, n * sizeof(*ranges));
    populator->n = n;
    r = thread_start(&populator->thread, "memory-ahead", populate_main, populator);
    if (r) {
        free(populator->ranges);
        free(populator);
        return r;
    }
    *populatorp = populator;
    return 0;
}

size_t page_populator_wait(PagePopulator *populator) {
    if (!populator->has_joined)
        pthread_join(populator->thread, NULL);
    populator->has_joined = true;
    return populator->done_bytes;
}

PagePopulator *page_populator_free(PagePopulator *populator) {
    if (!populator)
        return NULL;
    atomic_store(&populator->is_stopping, true);
    (void)page_populator_wait(populator);
    free(populator->ranges);
    free(populator);
    return NULL;
}
