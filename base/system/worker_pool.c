// SPDX-License-Identifier: Apache-2.0
/*
 * The pool runs one parallel loop at a time. The calling thread opens a gate, takes ranges itself, and closes the gate
 * when no range is left; a worker that comes late finds the gate closed and waits on. The caller waits only for
 * workers that took a range, never for one that the system has not scheduled: on a loaded machine the loop degrades to
 * the caller's speed.
 *
 * A worker that is preempted in the middle of a range delays all threads, and a worker that spins takes time from a
 * caller on the same processor. If the caller is preempted or waits repeatedly, other programs keep the processors
 * busy. The caller then computes alone for a while, longer each time a new try fails.
 *
 * The gate is one word: bit 16 means open, the low 16 bits count the workers inside. Workers spin for a short while
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
#define WINDOW_NS 3000000     /* the time of loops after which the pool judges whether workers help */
#define PAUSE_NS 200000       /* a pause between loops that is longer than any within a step */
#define BAD_LIMIT 8           /* a bad window adds 3, a good one subtracts 1 */
#define ALONE_NS_MIN 10000000 /* the caller's first time alone, which doubles while new tries fail */
#define ALONE_NS_MAX 640000000
#define ALONE_PIECES 16        /* pieces of a loop that begins alone; after each, the workers may join again */
#define PREEMPTION_NS 12000000 /* a caller that keeps its processor for longer is not on a loaded machine */
#define RANGES_PER_THREAD 4    /* of the rest of a loop: bounds the time that a slow worker delays the others */

typedef struct Worker {
    WorkerPool *pool;
    pthread_t thread;
    unsigned int index;
} Worker;

/* The running loop. The caller writes it while the gate is closed and no worker is inside. */
typedef struct Loop {
    WorkerFn *fn;
    void *arg;
    size_t n, grain;
    _Atomic size_t next;
} Loop;

/* Whether the workers help; used by the caller alone. */
typedef struct Judgement {
    uint64_t own_ns, wait_ns; /* the caller's time of computing and of waiting for workers, in this window */
    uint64_t last_end_ns;     /* the end of the last loop with workers */
    long n_preempted;         /* preemptions of the caller at the begin of the window, or after the last pause */
    unsigned int n_reading;   /* readers of files at work */
    unsigned int bad;
    uint64_t alone_until_ns, alone_ns;
} Judgement;

struct WorkerPool {
    unsigned int n_threads; /* const */
    unsigned int n_started;
    Worker *workers; /* [n_threads - 1] */
    Loop loop;
    Judgement judgement;
    _Atomic uint32_t gate;
    _Atomic unsigned int n_parked; /* written under lock */
    _Atomic bool stopping;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

/* Takes the next range, a share of the rest: ranges get shorter, so that all threads end together. */
static bool take_range(WorkerPool *pool, size_t *beginp, size_t *endp) {
    size_t begin = atomic_load_explicit(&pool->loop.next, memory_order_relaxed), end;

    do {
        const size_t left = pool->loop.n - begin,
                     share = left / pool->loop.grain / (pool->n_threads * RANGES_PER_THREAD),
                     range = (share ? share : 1) * pool->loop.grain;

        if (begin >= pool->loop.n)
            return false;
        end = left < range ? pool->loop.n : begin + range;
    } while (!atomic_compare_exchange_weak_explicit(&pool->loop.next, &begin, end, memory_order_relaxed,
                                                    memory_order_relaxed));
    *beginp = begin;
    *endp = end;
    return true;
}

static void take_ranges(WorkerPool *pool, unsigned int worker) {
    size_t begin, end;

    while (take_range(pool, &begin, &end))
        pool->loop.fn(pool->loop.arg, begin, end, worker);
}

/* Enters the gate if it is open. */
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
    /* The caller opens the gate and then reads n_parked; a worker raises n_parked and then reads the gate. */
    while (!(atomic_load(&pool->gate) & GATE_OPEN) && !atomic_load(&pool->stopping))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->n_parked, 1);
    pthread_mutex_unlock(&pool->lock);
}

/* Waits for a short time, or until the gate opens. A pause takes up to 140 cycles, an operator of one row a few
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
 * Return: 0, -EINVAL, -ENOMEM or the error of pthread_create().
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
    pool->judgement.alone_ns = ALONE_NS_MIN;
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
 * worker_pool_pin() - keep each worker on a processor of its own, if there is a thread for every processor
 *
 * Workers get the processors that the calling thread may use, in the order of their numbers, except the first. The
 * calling thread stays free to move, because threads that it starts (readers of files) would inherit its place. If
 * another program keeps a worker off its processor, loops do without that worker. With fewer threads than processors
 * the system places threads well, because it knows which processors share a core.
 *
 * Thread: the one that makes the pool. Return: 0, or -errno with nothing changed.
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
    pool->judgement.n_reading++;
}

void worker_pool_end_reading(WorkerPool *pool) {
    assert(pool->judgement.n_reading);
    pool->judgement.n_reading--;
}

unsigned int worker_pool_n_threads(const WorkerPool *pool) {
    return pool->n_threads;
}

/* Judges the window that ends. A window is bad if waiting cost more than the workers brought (alone, the caller would
 * need n_threads times its own share), or if the system preempted the caller. Preemptions don't count while files are
 * read, because the kernel's readers preempt for moments. In a window of seconds, the rate of preemptions counts. */
static void judge_workers(Judgement *judged, unsigned int n_threads, uint64_t own_ns, uint64_t wait_ns) {
    struct rusage usage;
    uint64_t window_ns;
    bool is_bad;

    judged->own_ns += own_ns;
    judged->wait_ns += wait_ns;
    window_ns = judged->own_ns + judged->wait_ns;
    if (window_ns < WINDOW_NS)
        return;
    is_bad = judged->wait_ns > judged->own_ns * (n_threads - 1);
    judged->own_ns = judged->wait_ns = 0;
    if (!getrusage(RUSAGE_THREAD, &usage)) {
        is_bad = is_bad ||
                 (!judged->n_reading && (uint64_t)(usage.ru_nivcsw - judged->n_preempted) > window_ns / PREEMPTION_NS);
        judged->n_preempted = usage.ru_nivcsw;
    }
    if (!is_bad) {
        if (judged->bad)
            judged->bad--;
        else
            judged->alone_ns = ALONE_NS_MIN;
        return;
    }
    judged->bad += 3;
    if (judged->bad >= BAD_LIMIT) {
        judged->alone_until_ns = clock_now_ns() + judged->alone_ns;
        if (judged->alone_ns < ALONE_NS_MAX)
            judged->alone_ns *= 2;
        judged->bad = BAD_LIMIT - 3; /* one more bad window ends the try */
    }
}

/* Forgets preemptions in a pause between loops, which tell nothing about the workers. */
static void pass_over_pause(WorkerPool *pool, uint64_t start_ns) {
    struct rusage usage;

    if (start_ns - pool->judgement.last_end_ns >= PAUSE_NS && !getrusage(RUSAGE_THREAD, &usage))
        pool->judgement.n_preempted = usage.ru_nivcsw;
}

/* Runs a loop with the workers, and measures how long the caller waits for them. */
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
        if (spins > 2000) /* the late worker may need this processor */
            sched_yield();
    }
    pool->judgement.last_end_ns = clock_now_ns();
    judge_workers(&pool->judgement, pool->n_threads, own_end_ns - start_ns, pool->judgement.last_end_ns - own_end_ns);
}

/* Runs a loop alone, until the loop or the time alone is over. Returns the end of the part that is done. */
static size_t run_alone(WorkerPool *pool, WorkerFn *fn, void *arg, size_t n, size_t grain) {
    const size_t piece = ((n + grain - 1) / grain + ALONE_PIECES - 1) / ALONE_PIECES * grain;
    size_t begin = 0, end;

    do {
        end = n - begin < piece ? n : begin + piece;
        fn(arg, begin, end, 0);
        begin = end;
    } while (begin < n && clock_now_ns() < pool->judgement.alone_until_ns);
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
    if (now_ns < pool->judgement.alone_until_ns) {
        begin = run_alone(pool, fn, arg, n, grain);
        if (begin == n)
            return;
        now_ns = clock_now_ns();
    }
    pool->loop.fn = fn;
    pool->loop.arg = arg;
    pool->loop.n = n;
    pool->loop.grain = grain;
    atomic_store_explicit(&pool->loop.next, begin, memory_order_relaxed);
    run_together(pool, now_ns);
}
