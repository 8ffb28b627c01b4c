// SPDX-License-Identifier: Apache-2.0
/* Groups that go through a graph of operators on several threads, layer by layer. Every node of every group runs once,
 * in order and on one thread at a time, after what it needs of the group before. A run that was stopped goes on where
 * it was. */
#undef NDEBUG
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "scheduler/operators/wavefront.h"
#include "test/unit/fixtures/pool_alone.h"

enum {
    N_NODES = 7,
    N_LAYERS = 17,
    N_OPERATORS = N_NODES * N_LAYERS,
    FOLLOWS = 4, /* the node that needs the group before */
    NEVER = -1,
};

/* What the test records of a group. Fields that are not atomic are written by the thread that runs the group's
 * operator, so that the sanitizer sees two threads that do. */
typedef struct GroupLog {
    _Atomic int n_inside;
    uint32_t at;                          /* next operator */
    uint32_t made[N_OPERATORS];           /* read by the next group; written before wavefront_ready() */
    _Atomic uint32_t n_runs[N_OPERATORS]; /* of each operator */
} GroupLog;

typedef struct Log {
    Wavefront front;
    GroupLog groups[WAVEFRONT_GROUPS_MAX];
    bool tells_early;  /* wavefront_ready() in the middle of operators */
    int stop_after;    /* number of operators of a run, or NEVER */
    _Atomic int n_ran; /* in this run */
    size_t bad_group;  /* the group whose operator bad_at fails while is_bad */
    uint32_t bad_at;
    bool is_bad;
} Log;

static bool needs_the_one_before(uint32_t at) {
    return at % N_NODES == FOLLOWS;
}

static const OpGraph *graph(void) {
    static OpGraph made;

    if (!made.n) {
        for (size_t i = 0; i < N_NODES; i++)
            op_graph_add(&made, OP_CLASS_ELEMENT_WISE, 1, 1, i == FOLLOWS);
        op_graph_close(&made);
    }
    return &made;
}

/* All groups work on one sequence, one after the other. */
static void begin(Wavefront *front, size_t n_groups) {
    wavefront_begin(front, graph(), n_groups, N_LAYERS);
    for (size_t i = 1; i < n_groups; i++)
        wavefront_continue(front, i);
}

static int run(void *arg, size_t index, uint32_t layer, size_t node, unsigned int worker) {
    const uint32_t at = layer * N_NODES + (uint32_t)node;
    Log *log = arg;
    GroupLog *group = &log->groups[index];

    assert_int_equal(atomic_fetch_add(&group->n_inside, 1), 0);
    assert_int_equal(group->at, at);
    if (index && needs_the_one_before(at))
        assert_int_equal(log->groups[index - 1].made[at], at + 1);
    if (log->is_bad && index == log->bad_group && at == log->bad_at) {
        atomic_fetch_sub(&group->n_inside, 1);
        return -EIO;
    }
    group->n_runs[at]++;
    group->made[at] = at + 1;
    if (log->tells_early && needs_the_one_before(at)) {
        wavefront_ready(&log->front, index);
        sched_yield();
    }
    group->at = at + 1;
    atomic_fetch_add(&log->n_ran, 1);
    atomic_fetch_sub(&group->n_inside, 1);
    return 0;
}

static bool stops(void *arg) {
    const Log *log = arg;

    return log->stop_after != NEVER && log->n_ran >= log->stop_after;
}

static void log_begin(Log *log, size_t n_groups, bool tells_early) {
    memset(log, 0, sizeof(*log));
    log->tells_early = tells_early;
    log->stop_after = NEVER;
    begin(&log->front, n_groups);
}

static int log_run(Log *log, WorkerPool *pool) {
    const WavefrontWork work = { .run = run, .stops = stops, .arg = log };

    log->n_ran = 0;
    return wavefront_run(&log->front, pool, &work);
}

static void all_ran_once(const Log *log, size_t n_groups) {
    for (size_t i = 0; i < n_groups; i++)
        for (uint32_t at = 0; at < N_OPERATORS; at++)
            assert_int_equal(log->groups[i].n_runs[at], 1);
}

static void test_wavefront_runs_all_once(void **state) {
    static const size_t counts[] = { 1, 2, 3, 5, 8, WAVEFRONT_GROUPS_MAX };
    static Log log;

    for (unsigned int n_threads = 1; n_threads <= 5; n_threads++) {
        _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;

        assert_int_equal(worker_pool_new(&pool, n_threads), 0);
        for (size_t i = 0; i < ARRAY_LEN(counts); i++)
            for (int early = 0; early < 2; early++) {
                log_begin(&log, counts[i], early);
                assert_int_equal(log_run(&log, pool), 0);
                all_ran_once(&log, counts[i]);
                assert_int_equal(log_run(&log, pool), 0); /* there is nothing left */
                all_ran_once(&log, counts[i]);
            }
    }
}

/* Stops after every operator, and after numbers that the end comes between. */
static void test_wavefront_stops_and_goes_on(void **state) {
    static const int parts[] = { 1, 2, 17, 1000 };
    static Log log;

    for (unsigned int n_threads = 1; n_threads <= 4; n_threads++) {
        _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;

        assert_int_equal(worker_pool_new(&pool, n_threads), 0);
        for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
            int r;

            log_begin(&log, 4, true);
            log.stop_after = parts[i];
            do {
                r = log_run(&log, pool);
                assert_true(r == 0 || r == WAVEFRONT_E_STOPPED);
                assert_true(r == 0 || log.n_ran >= parts[i]);
                assert_true(log.n_ran < parts[i] + (int)n_threads); /* each thread asks after each operator */
            } while (r);
            all_ran_once(&log, 4);
        }
    }
}

/* The group stays before the operator that failed, and no group needs its result. */
static void test_wavefront_failure(void **state) {
    static Log log;

    for (unsigned int n_threads = 1; n_threads <= 3; n_threads++) {
        _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;

        assert_int_equal(worker_pool_new(&pool, n_threads), 0);
        log_begin(&log, 3, false);
        log.is_bad = true;
        log.bad_group = 1;
        log.bad_at = 46;
        assert_int_equal(log_run(&log, pool), -EIO);
        assert_int_equal(log.groups[1].at, 46);
        assert_true(log.groups[2].at <= 46);
        log.is_bad = false;
        assert_int_equal(log_run(&log, pool), 0);
        all_ran_once(&log, 3);
    }
}

typedef struct Held {
    Wavefront front;
    _Atomic uint32_t at[2];
} Held;

/* The first operator of the first group lasts until the other group has come to where it must wait. */
static int run_held(void *arg, size_t group, uint32_t layer, size_t node, unsigned int worker) {
    const uint32_t at = layer * N_NODES + (uint32_t)node;
    Held *held = arg;

    while (!group && !at && held->at[1] < 4)
        sched_yield();
    held->at[group] = at + 1;
    return 0;
}

static bool never_stops(void *arg) {
    return false;
}

/* A thread that is delayed does not delay the others before they need its result. */
static void test_wavefront_does_not_wait_early(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    Held held = { 0 };
    const WavefrontWork work = { .run = run_held, .stops = never_stops, .arg = &held };

    assert_int_equal(worker_pool_new(&pool, 2), 0);
    begin(&held.front, 2);
    assert_int_equal(wavefront_run(&held.front, pool, &work), 0);
    assert_int_equal(held.at[0], N_OPERATORS);
    assert_int_equal(held.at[1], N_OPERATORS);
}

/* The first operator of the first group lasts until the other group, which works on another sequence, is at the end. */
static int run_apart(void *arg, size_t group, uint32_t layer, size_t node, unsigned int worker) {
    const uint32_t at = layer * N_NODES + (uint32_t)node;
    Held *held = arg;

    while (!group && !at && held->at[1] < N_OPERATORS)
        sched_yield();
    held->at[group] = at + 1;
    return 0;
}

static void test_wavefront_others_do_not_wait(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    Held held = { 0 };
    const WavefrontWork work = { .run = run_apart, .stops = never_stops, .arg = &held };

    assert_int_equal(worker_pool_new(&pool, 2), 0);
    wavefront_begin(&held.front, graph(), 2, N_LAYERS);
    assert_int_equal(wavefront_run(&held.front, pool, &work), 0);
    assert_int_equal(held.at[0], N_OPERATORS);
}

/* The operator that the other group waits for does not end before that group has gone past it. */
static int run_ready_early(void *arg, size_t group, uint32_t layer, size_t node, unsigned int worker) {
    const uint32_t at = layer * N_NODES + (uint32_t)node;
    Held *held = arg;

    if (!group && at == 4) {
        wavefront_ready(&held->front, group);
        while (held->at[1] < 6)
            sched_yield();
    }
    held->at[group] = at + 1;
    return 0;
}

static void test_wavefront_ready_before_the_end(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    Held held = { 0 };
    const WavefrontWork work = { .run = run_ready_early, .stops = never_stops, .arg = &held };

    assert_int_equal(worker_pool_new(&pool, 2), 0);
    begin(&held.front, 2);
    assert_int_equal(wavefront_run(&held.front, pool, &work), 0);
    assert_int_equal(held.at[1], N_OPERATORS);
}

static uint64_t process_cpu_ns(void) {
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int run_slowly(void *arg, size_t group, uint32_t layer, size_t node, unsigned int worker) {
    const uint32_t at = layer * N_NODES + (uint32_t)node;
    Held *held = arg;

    if (!group && at == 4)
        sleep_ms(300);
    held->at[group] = at + 1;
    return 0;
}

/* A thread that waits for another one polls for a moment, and then leaves the processor to others. */
static void test_wavefront_waiting_takes_no_time(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    Held held = { 0 };
    const WavefrontWork work = { .run = run_slowly, .stops = never_stops, .arg = &held };
    uint64_t cpu_ns, start_ns;

    assert_int_equal(worker_pool_new(&pool, 3), 0);
    begin(&held.front, 2);
    start_ns = clock_now_ns();
    cpu_ns = process_cpu_ns();
    assert_int_equal(wavefront_run(&held.front, pool, &work), 0);
    assert_true(process_cpu_ns() - cpu_ns < (clock_now_ns() - start_ns) / 3);
    assert_int_equal(held.at[1], N_OPERATORS);
}

typedef struct Slow {
    _Atomic int by_workers;
} Slow;

static int take_2_ms(void *arg, size_t group, uint32_t layer, size_t node, unsigned int worker) {
    Slow *slow = arg;

    slow->by_workers += worker > 0;
    sleep_ms(2);
    return 0;
}

/* A pool that has stopped using its workers does not do so for a whole long prefill. */
static void test_wavefront_gets_workers_again(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    static Wavefront front;
    Slow slow = { 0 };
    const WavefrontWork work = { .run = take_2_ms, .stops = never_stops, .arg = &slow };

    assert_int_equal(worker_pool_new(&pool, 2), 0);
    pool_alone_teach(pool);
    begin(&front, 3);
    assert_int_equal(wavefront_run(&front, pool, &work), 0);
    assert_true(wavefront_has_ended(&front));
    assert_true(slow.by_workers > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wavefront_runs_all_once),
        cmocka_unit_test(test_wavefront_stops_and_goes_on),
        cmocka_unit_test(test_wavefront_failure),
        cmocka_unit_test(test_wavefront_does_not_wait_early),
        cmocka_unit_test(test_wavefront_others_do_not_wait),
        cmocka_unit_test(test_wavefront_ready_before_the_end),
        cmocka_unit_test(test_wavefront_waiting_takes_no_time),
        cmocka_unit_test(test_wavefront_gets_workers_again),
    };

    return cmocka_run_group_tests_name("wavefront", tests, NULL, NULL);
}
