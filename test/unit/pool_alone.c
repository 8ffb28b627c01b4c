// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/pool_alone.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

void sleep_ms(long ms) {
    (void)nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* The caller waits for the workers to come, and then much longer than it worked. */
static void hold_up(void *arg, size_t begin, size_t end, unsigned int worker) {
    _Atomic unsigned int *by_workers = arg;

    if (worker) {
        (*by_workers)++;
        sleep_ms(60);
    }
    for (int i = 0; !worker && i < 4 && !*by_workers; i++)
        sleep_ms(1);
}

void pool_alone_teach(WorkerPool *pool) {
    int n_alone = 0; /* loops in a row, each of 4 ms or more; the times alone are 10 ms, 20 ms, ... */

    for (int i = 0; i < 1000 && n_alone < 4; i++) {
        _Atomic unsigned int by_workers = 0;

        worker_pool_run(pool, hold_up, &by_workers, 2, 1);
        n_alone = by_workers ? 0 : n_alone + 1;
    }
    assert_int_equal(n_alone, 4);
}
