// SPDX-License-Identifier: Apache-2.0
/*
 * One parallel loop at a time. The calling thread opens a gate, takes ranges itself, and closes the gate when none is
 * left; a worker that comes late finds it closed and goes on waiting. So the caller waits only for workers that took a
 * range, never for one that the system has not scheduled: on a loaded machine the loop degrades to the caller's speed.
 *
 * A worker that was preempted in the middle of a range still holds everybody up, and a worker that spins takes time
 * from the caller when both share a processor. So when the caller is preempted or waits again and again (the processors
 * are busy with something else) it works alone for a while, longer each time a new try fails.
 *
 * The gate is one word: bit 16 says open, the low 16 bits count the workers inside. Workers spin for a short while
 * after a loop, because the next operator usually follows at once, and then park.
 */
#define _GNU_SOURCE
#include "base/system/worker_pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/system/c_library.h"
#include "base/system/cpu.h"
#include "base/system/thread.h"

#define GATE_OPEN 0x10000u
#define GATE_COUNT 0x0ffffu
#define SPIN_NS 60000
#define WINDOW_NS 3000000     /* of loops, after which it is judged whether the workers help */
#define PAUSE_NS 200000       /* between loops: longer than what a step does between two operators */
#define BAD_LIMIT 8           /* a bad window adds 3, a good one takes 1 away */
#define ALONE_NS_MIN 10000000 /* the first time alone; doubles while new tries fail */
#define ALONE_NS_MAX 640000000
#define ALONE_PIECES 16        /* of a loop that begins alone: after each the workers may be wanted again */
#define PREEMPTION_NS 12000000 /* a caller that keeps its processor for longer than this is not on a loaded machine */
#define RANGES_PER_THREAD 4    /* of those that are left: what a late or slow worker can hold the others up for */

typedef struct Worker {
    WorkerPool *pool;
    pthread_t thread;
    unsigned int index;
} Worker;

struct WorkerPool {
    unsigned int n_threads; /* const */
    unsigned int n_started;
    Worker *workers; /* [n_threads - 1] */

    /* The loop that runs: written by the caller while the gate is closed and nobody is inside. */
    WorkerFn *fn;
    void *arg;
    size_t n, grain;
    _Atomic size_t next;

    /* The caller's: */
    uint64_t own_ns, wait_ns; /* in this window: computing, waiting for workers */
    uint64_t last_end_ns;     /* of a loop with the workers */
    long n_preempted;         /* of the calling thread when the window began, or behind the last pause */
    unsigned int n_reading;   /* who read files */
    unsigned int bad;
    uint64_t alone_until_ns, alone_ns;

    _Atomic uint32_t gate;
    _Atomic unsigned int n_parked; /* changed under lock */
    _Atomic bool stopping;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

/* The next range: a share of what is left, so that ranges get shorter and all threads end together. */
static bool take_range(WorkerPool *pool, size_t *beginp, size_t *endp) {
    size_t begin = atomic_load_explicit(&pool->next, memory_order_relaxed), end;

    do {
        const size_t left = pool->n - begin, share = left / pool->grain / (pool->n_threads * RANGES_PER_THREAD),
                     range = (share ? share : 1) * pool->grain;

        if (begin >= pool->n)
            return false;
        end = left < range ? pool->n : begin + range;
    } while (
        !atomic_compare_exchange_weak_explicit(&pool->next, &begin, end, memory_order_relaxed, memory_order_relaxed));
    *beginp = begin;
    *endp = end;
    return true;
}

static void take_ranges(WorkerPool *pool, unsigned int worker) {
    size_t begin, end;

    while (take_range(pool, &begin, &end))
        pool->fn(pool->arg, begin, end, worker);
}

/* Goes through the gate if it is open. */
static bool gate_enter(WorkerPool *pool) {
    uint32_t gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);

    while (gate & GATE_OPEN)
        if (atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void park(WorkerPool *pool) {
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_parked, 1);
    /* The caller opens the gate and then looks for parked workers; we say that we park and then look at the gate. */
    while (!(atomic_load(&pool->gate) & GATE_OPEN) && !atomic_load(&pool->stopping))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->n_parked, 1);
    pthread_mutex_unlock(&pool->lock);
}

/* A short wait that ends when the gate opens: a pause takes up to 140 cycles, and operators of one row a few
 * thousand. */
static void wait_at_gate(const WorkerPool *pool) {
    for (int i = 0; i < 64 && !(atomic_load_explicit(&pool->gate, memory_order_relaxed) & GATE_OPEN); i++)
        cpu_relax();
}

static void *worker_main(void *arg) {
    Worker *worker = arg;
    WorkerPool *pool = worker->pool;
    uint64_t idle_since_ns = clock_now_ns();

    while (!atomic_load_explicit(&pool->stopping, memory_order_relaxed)) {
        if (gate_enter(pool)) {
            take_ranges(pool, worker->index);
            atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_release);
            idle_since_ns = clock_now_ns();
            continue;
        }
        wait_at_gate(pool);
        if (clock_now_ns() - idle_since_ns > SPIN_NS) {
            park(pool);
            idle_since_ns = clock_now_ns();
        }
    }
    return NULL;
}

WorkerPool *worker_pool_free(WorkerPool *pool) {
    if (!pool)
        return NULL;
    assert(!atomic_load(&pool->gate));
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stopping, true);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned int i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
    return NULL;
}

/**
 * worker_pool_new() - start n_threads - 1 workers
 * @n_threads: 1..1024, the calling thread counted
 *
 * Return: 0, -EINVAL, -ENOMEM or what pthread_create() says.
 */
int worker_pool_new(WorkerPool **poolp, unsigned int n_threads) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    int r;

    if (n_threads < 1 || n_threads > 1024)
        return err_raise(-EINVAL);
    pool = calloc(1, sizeof(*pool));
    if (!pool)
        return err_raise(-ENOMEM);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->n_threads = n_threads;
    pool->alone_ns = ALONE_NS_MIN;
    pool->workers = calloc(n_threads, sizeof(*pool->workers));
    if (!pool->workers)
        return err_raise(-ENOMEM);
    for (unsigned int i = 0; i + 1 < n_threads; i++) {
        pool->workers[i] = (Worker){ .pool = pool, .index = i + 1 };
        r = thread_start(&pool->workers[i].thread, "worker", worker_main, &pool->workers[i]);
        if (r)
            return err_raise(r);
        pool->n_started++;
    }
    *poolp = steal(&pool);
    return 0;
}

/**
 * worker_pool_pin() - keep each worker on a processor of its own, where there is a thread for every processor
 *
 * Of the processors that the calling thread may use, in the order of their numbers, the first one is left alone and the
 * workers get the next ones. The calling thread itself stays free to move: what it starts (readers of files) would
 * inherit its place. Workers that another program keeps off their processor are late, and loops do without them. With
 * fewer threads the system's choice is as good, for which two processors are halves of one core is its business.
 *
 * Thread: the one that makes the pool. Return: 0, -errno: nothing has changed.
 */
int worker_pool_pin(WorkerPool *pool) {
    cpu_set_t all, one;
    int processor = -1, r;

    r = c_library_get_affinity(&all);
    if (r)
        return err_raise(r);
    if ((unsigned int)CPU_COUNT(&all) != pool->n_threads)
        return 0;
    for (unsigned int i = 0; i < pool->n_threads; i++) {
        do
            processor++;
        while (!CPU_ISSET(processor, &all));
        if (!i)
            continue;
        CPU_ZERO(&one);
        CPU_SET(processor, &one);
        r = c_library_set_affinity(pool->workers[i - 1].thread, &one);
        for (unsigned int done = 0; r && done < i - 1; done++)
            (void)c_library_set_affinity(pool->workers[done].thread, &all);
        if (r)
            return err_raise(r);
    }
    return 0;
}

void worker_pool_begin_reading(WorkerPool *pool) {
    pool->n_reading++;
}

void worker_pool_end_reading(WorkerPool *pool) {
    assert(pool->n_reading);
    pool->n_reading--;
}

unsigned int worker_pool_n_threads(const WorkerPool *pool) {
    return pool->n_threads;
}

/* A window is bad when waiting ate what the workers brought (alone, the caller would need n_threads times its own
 * share), or when the system took the processor from the caller; while files are read it does so for moments, over and
 * over. One loop may be a window of seconds, in which that happens to anybody: then it is how often that counts. */
static void judge_workers(WorkerPool *pool, uint64_t own_ns, uint64_t wait_ns) {
    struct rusage usage;
    uint64_t window_ns;
    bool is_bad;

    pool->own_ns += own_ns;
    pool->wait_ns += wait_ns;
    window_ns = pool->own_ns + pool->wait_ns;
    if (window_ns < WINDOW_NS)
        return;
    is_bad = pool->wait_ns > pool->own_ns * (pool->n_threads - 1);
    pool->own_ns = pool->wait_ns = 0;
    if (!getrusage(RUSAGE_THREAD, &usage)) {
        is_bad =
            is_bad || (!pool->n_reading && (uint64_t)(usage.ru_nivcsw - pool->n_preempted) > window_ns / PREEMPTION_NS);
        pool->n_preempted = usage.ru_nivcsw;
    }
    if (!is_bad) {
        if (pool->bad)
            pool->bad--;
        else
            pool->alone_ns = ALONE_NS_MIN;
        return;
    }
    pool->bad += 3;
    if (pool->bad >= BAD_LIMIT) {
        pool->alone_until_ns = clock_now_ns() + pool->alone_ns;
        if (pool->alone_ns < ALONE_NS_MAX)
            pool->alone_ns *= 2;
        pool->bad = BAD_LIMIT - 3; /* the next bad window is enough */
    }
}

/* What the system did to the caller in a pause between loops says nothing about the workers. */
static void pass_over_pause(WorkerPool *pool, uint64_t start_ns) {
    struct rusage usage;

    if (start_ns - pool->last_end_ns >= PAUSE_NS && !getrusage(RUSAGE_THREAD, &usage))
        pool->n_preempted = usage.ru_nivcsw;
}

/* Runs one loop with the workers; notes how long the caller had to wait for them. */
static void run_together(WorkerPool *pool, uint64_t start_ns) {
    uint64_t own_end_ns;

    pass_over_pause(pool, start_ns);
    atomic_store(&pool->gate, GATE_OPEN);
    if (atomic_load(&pool->n_parked)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
    take_ranges(pool, 0);
    atomic_fetch_and_explicit(&pool->gate, (uint32_t)~GATE_OPEN, memory_order_relaxed);
    own_end_ns = clock_now_ns();
    for (unsigned int spins = 0; atomic_load_explicit(&pool->gate, memory_order_acquire) & GATE_COUNT; spins++) {
        cpu_relax();
        if (spins > 2000) /* the worker that we wait for may need our core */
            sched_yield();
    }
    pool->last_end_ns = clock_now_ns();
    judge_workers(pool, own_end_ns - start_ns, pool->last_end_ns - own_end_ns);
}

/* From the start of the loop, until it or the time alone is over. Returns how far it came. */
static size_t run_alone(WorkerPool *pool, WorkerFn *fn, void *arg, size_t n, size_t grain) {
    const size_t piece = ((n + grain - 1) / grain + ALONE_PIECES - 1) / ALONE_PIECES * grain;
    size_t begin = 0, end;

    do {
        end = n - begin < piece ? n : begin + piece;
        fn(arg, begin, end, 0);
        begin = end;
    } while (begin < n && clock_now_ns() < pool->alone_until_ns);
    return begin;
}

/**
 * worker_pool_run() - call fn for ranges that cover [0, n), on this thread and the workers
 * @grain: borders of ranges are multiples of it
 *
 * Thread: one caller at a time. Return: when all ranges are done.
 */
void worker_pool_run(WorkerPool *pool, WorkerFn *fn, void *arg, size_t n, size_t grain) {
    uint64_t now_ns;
    size_t begin = 0;

    if (!n)
        return;
    if (pool->n_threads == 1 || n <= grain) {
        fn(arg, 0, n, 0);
        return;
    }
    now_ns = clock_now_ns();
    if (now_ns < pool->alone_until_ns) {
        begin = run_alone(pool, fn, arg, n, grain);
        if (begin == n)
            return;
        now_ns = clock_now_ns();
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->n = n;
    pool->grain = grain;
    atomic_store_explicit(&pool->next, begin, memory_order_relaxed);
    run_together(pool, now_ns);
}
