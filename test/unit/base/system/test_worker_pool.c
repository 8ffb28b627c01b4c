// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#undef NDEBUG
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/system/worker_pool.h"
#include "test/unit/fixtures/pool_alone.h"

#define N_MAX 5000

typedef struct Marks {
    _Atomic unsigned int seen[N_MAX];
    _Atomic unsigned int bad_borders;
    size_t grain, n;
    unsigned int n_threads;
} Marks;

static void mark(void *arg, size_t begin, size_t end, unsigned int worker) {
    Marks *marks = arg;

    if (begin % marks->grain || (end % marks->grain && end != marks->n) || begin >= end || worker >= marks->n_threads)
        marks->bad_borders++;
    for (size_t i = begin; i < end; i++)
        marks->seen[i]++;
}

static void test_worker_pool_covers_once(void **state) {
    static const size_t sizes[] = { 0, 1, 2, 15, 16, 17, 255, 1024, N_MAX };
    static Marks marks;

    for (unsigned int n_threads = 1; n_threads <= 5; n_threads++) {
        _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;

        assert_int_equal(worker_pool_new(&pool, n_threads), 0);
        assert_int_equal(worker_pool_n_threads(pool), n_threads);
        for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
            for (size_t grain = 1; grain <= 16; grain *= 4) {
                for (size_t i = 0; i < N_MAX; i++)
                    marks.seen[i] = 0;
                marks.bad_borders = 0;
                marks.grain = grain;
                marks.n = sizes[s];
                marks.n_threads = n_threads;
                worker_pool_run(pool, mark, &marks, sizes[s], grain);
                assert_int_equal(marks.bad_borders, 0);
                for (size_t i = 0; i < N_MAX; i++)
                    assert_int_equal(marks.seen[i], i < sizes[s]);
            }
    }
}

static void sum(void *arg, size_t begin, size_t end, unsigned int worker) {
    (void)worker;
    *(_Atomic uint64_t *)arg += end - begin;
}

/* Loops in quick succession: a worker that is late for one must not run the next one's work twice. */
static void test_worker_pool_many_short_loops(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    _Atomic uint64_t total = 0;

    assert_int_equal(worker_pool_new(&pool, 4), 0);
    for (size_t i = 0; i < 20000; i++)
        worker_pool_run(pool, sum, &total, 1 + i % 7, 1);
    assert_int_equal(total, 20000 / 7 * 28 + 1); /* 20000 = 7 * 2857 + 1 */
}

enum {
    SLOW_PIECES = 300, /* pieces of 2 ms: more than a pool's initial longest time alone */
};

typedef struct SlowLoop {
    _Atomic unsigned int by_workers; /* number of pieces */
    _Atomic unsigned int seen[SLOW_PIECES];
} SlowLoop;

static void take_2_ms(void *arg, size_t begin, size_t end, unsigned int worker) {
    SlowLoop *loop = arg;

    for (size_t i = begin; i < end; i++) {
        loop->seen[i]++;
        loop->by_workers += worker > 0;
        sleep_ms(2);
    }
}

/* A pool that has learned to work without its workers does so for a while, not for all of a long loop. */
static void test_worker_pool_long_loop_gets_workers(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    static SlowLoop loop;

    assert_int_equal(worker_pool_new(&pool, 2), 0);
    pool_alone_teach(pool);
    worker_pool_run(pool, take_2_ms, &loop, SLOW_PIECES, 1);
    for (size_t i = 0; i < SLOW_PIECES; i++)
        assert_int_equal(loop.seen[i], 1);
    assert_true(loop.by_workers > 0);
}

static void compute_2_ms(void *arg, size_t begin, size_t end, unsigned int worker) {
    SlowLoop *loop = arg;

    for (size_t i = begin; i < end; i++) {
        const uint64_t start_ns = clock_now_ns();

        loop->by_workers += worker > 0;
        while (clock_now_ns() < start_ns + 2000000)
            continue;
    }
}

static void *yield_until(void *stopping) {
    while (!atomic_load((_Atomic bool *)stopping))
        sched_yield();
    return NULL;
}

/* Makes this thread leave its processor many times, which the system counts as preemptions. */
static void be_preempted(void) {
    _Atomic bool stopping = false;
    cpu_set_t all, here;
    pthread_t other;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    assert_int_equal(sched_setaffinity(0, sizeof(here), &here), 0); /* the other thread inherits the affinity */
    assert_int_equal(pthread_create(&other, NULL, yield_until, &stopping), 0);
    for (int i = 0; i < 200; i++)
        sched_yield();
    atomic_store(&stopping, true);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    pthread_join(other, NULL);
    sleep_ms(1);
}

/* The caller takes the first piece of a loop, or the second. */
static void be_preempted_and_compute(void *arg, size_t begin, size_t end, unsigned int worker) {
    if (!worker)
        be_preempted();
    compute_2_ms(arg, begin, end, worker);
}

typedef enum Preemptions {
    PREEMPTED_NOT,
    PREEMPTED_BETWEEN,        /* between loops */
    PREEMPTED_WITHIN_READING, /* within loops, while files are read */
} Preemptions;

enum {
    N_LOOPS = 60,
    N_PIECES = 4, /* pieces of 2 ms: every loop is long enough to be judged */
};

/* Returns how many of the loops had the worker's help. */
static int loops_together(Preemptions preemptions) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    static SlowLoop loop;
    int n_together = 0;

    assert_int_equal(worker_pool_new(&pool, 2), 0);
    if (preemptions == PREEMPTED_WITHIN_READING) {
        worker_pool_begin_reading(pool);
        worker_pool_begin_reading(pool);
        worker_pool_end_reading(pool); /* the other thread continues to read */
    }
    for (int i = 0; i < N_LOOPS; i++) {
        if (preemptions == PREEMPTED_BETWEEN)
            be_preempted();
        loop.by_workers = 0;
        worker_pool_run(pool, preemptions == PREEMPTED_WITHIN_READING ? be_preempted_and_compute : compute_2_ms, &loop,
                        N_PIECES, 1);
        n_together += loop.by_workers > 0;
    }
    return n_together;
}

/* Preemption of the caller between loops says nothing about the workers. On a busy machine few loops have workers in
 * either case, and the second count may be lower by chance; a real effect would show in every round. */
static void test_worker_pool_preempted_between_loops(void **state) {
    int n_undisturbed = 0, n_preempted = 0;

    for (int round = 0; round < 5; round++) {
        n_undisturbed = loops_together(PREEMPTED_NOT);
        n_preempted = loops_together(PREEMPTED_BETWEEN);
        if (n_preempted >= n_undisturbed / 2)
            return;
    }
    fail_msg("%d loops together, %d without preemptions between them", n_preempted, n_undisturbed);
}

/* Preemption of the caller within loops while files are read says nothing about the workers either. */
static void test_worker_pool_preempted_by_reads(void **state) {
    int n_together = 0;

    for (int round = 0; round < 5; round++) {
        n_together = loops_together(PREEMPTED_WITHIN_READING);
        if (n_together > N_LOOPS / 2)
            return;
    }
    fail_msg("%d loops of %d together", n_together, N_LOOPS);
}

static uint64_t process_cpu_ns(void) {
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Idle workers look for work for a moment, and then take no time. A worker that kept looking would take a whole
 * processor, or its share of a busy machine. */
static void test_worker_pool_idle_takes_no_time(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    _Atomic uint64_t total = 0;

    assert_int_equal(worker_pool_new(&pool, 4), 0);
    for (int round = 0; round < 3; round++) {
        uint64_t cpu_ns, start_ns;

        for (size_t i = 0; i < 1000; i++)
            worker_pool_run(pool, sum, &total, 100, 1);
        sleep_ms(50);
        start_ns = clock_now_ns();
        cpu_ns = process_cpu_ns();
        sleep_ms(300);
        assert_true(process_cpu_ns() - cpu_ns < (clock_now_ns() - start_ns) / 5);
    }
    assert_int_equal(total, 300000);
}

static void test_worker_pool_refuses_counts(void **state) {
    WorkerPool *pool = NULL;

    assert_int_equal(worker_pool_new(&pool, 0), -EINVAL);
    assert_int_equal(worker_pool_new(&pool, 5000), -EINVAL);
    assert_null(pool);
}

typedef struct Places {
    cpu_set_t of[64]; /* one per worker */
    _Atomic bool seen[64];
} Places;

static void note_place(void *arg, size_t begin, size_t end, unsigned int worker) {
    Places *places = arg;

    if (!sched_getaffinity(0, sizeof(places->of[worker]), &places->of[worker]))
        places->seen[worker] = true;
}

/* Finds where the threads of a pool may run; on a busy machine a loop may end without the workers. */
static void find_places(WorkerPool *pool, Places *places) {
    bool all_seen = false;

    memset(places, 0, sizeof(*places));
    while (!all_seen) {
        worker_pool_run(pool, note_place, places, 10000, 1);
        all_seen = true;
        for (unsigned int i = 0; i < worker_pool_n_threads(pool); i++)
            all_seen = all_seen && places->seen[i];
    }
}

/* Every worker has one processor of its own; the calling thread keeps all. */
static void check_pinned(WorkerPool *pool, const cpu_set_t *all) {
    static Places places;
    cpu_set_t taken;

    find_places(pool, &places);
    assert_true(CPU_EQUAL(&places.of[0], all));
    CPU_ZERO(&taken);
    for (unsigned int i = 1; i < worker_pool_n_threads(pool); i++) {
        assert_int_equal(CPU_COUNT(&places.of[i]), 1);
        CPU_AND(&places.of[i], &places.of[i], all);
        assert_int_equal(CPU_COUNT(&places.of[i]), 1);
        CPU_XOR(&taken, &taken, &places.of[i]);
        assert_int_equal(CPU_COUNT(&taken), i);
    }
}

static void check_free(WorkerPool *pool, const cpu_set_t *all) {
    static Places places;

    find_places(pool, &places);
    for (unsigned int i = 0; i < worker_pool_n_threads(pool); i++)
        assert_true(CPU_EQUAL(&places.of[i], all));
}

/* Pins exactly if there is a thread for every processor. */
static void test_worker_pool_pins(void **state) {
    cpu_set_t all;
    unsigned int n;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    n = (unsigned int)CPU_COUNT(&all);
    if (n > 60)
        skip();
    for (unsigned int n_threads = n > 1 ? n - 1 : 1; n_threads <= n + 1; n_threads++) {
        _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;

        assert_int_equal(worker_pool_new(&pool, n_threads), 0);
        assert_int_equal(worker_pool_pin(pool), 0);
        if (n_threads == n)
            check_pinned(pool, &all);
        else
            check_free(pool, &all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worker_pool_covers_once),
        cmocka_unit_test(test_worker_pool_many_short_loops),
        cmocka_unit_test(test_worker_pool_long_loop_gets_workers),
        cmocka_unit_test(test_worker_pool_preempted_between_loops),
        cmocka_unit_test(test_worker_pool_preempted_by_reads),
        cmocka_unit_test(test_worker_pool_idle_takes_no_time),
        cmocka_unit_test(test_worker_pool_refuses_counts),
        cmocka_unit_test(test_worker_pool_pins),
    };

    return cmocka_run_group_tests_name("worker_pool", tests, NULL, NULL);
}
