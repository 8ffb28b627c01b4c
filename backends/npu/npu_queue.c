// SPDX-License-Identifier: Apache-2.0
/*
 * A ring of commands with one thread at each end. Two numbers say how far the ends are: commands submitted, commands
 * ended. Each end polls the other's number for a short while, because the next command usually follows at once, and
 * then sleeps. An end that moves its number wakes the other one if that is marked as asleep. Both ends write before
 * they read, in one order for all threads, so at least one of them sees the other. No lock is held while an end polls
 * or works.
 */
#include "backends/npu/npu_queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/system/cpu.h"
#include "base/system/thread.h"

#define SPIN_NS 40000 /* twice the time of a wake-up */
#define SPINS_A_LOOK 32

typedef struct NpuCommand {
    NpuCommandFn *fn;
    void *arg;
} NpuCommand;

/* Lets one end of the ring sleep. */
typedef struct NpuSleeper {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    _Atomic bool is_asleep;
} NpuSleeper;

struct NpuQueue {
    NpuCommand commands[NPU_QUEUE_DEPTH]; /* the submitter's until their number is submitted, then the worker's */
    _Atomic uint64_t n_submitted, n_ended;
    _Atomic bool is_ending;
    _Atomic uint64_t busy_ns;
    NpuSleeper worker, waiter;
    pthread_t thread;
    bool has_thread;
};

static void sleeper_init(NpuSleeper *sleeper) {
    pthread_mutex_init(&sleeper->mutex, NULL);
    pthread_cond_init(&sleeper->wake, NULL);
}

static void sleeper_deinit(NpuSleeper *sleeper) {
    pthread_cond_destroy(&sleeper->wake);
    pthread_mutex_destroy(&sleeper->mutex);
}

static void sleeper_wake(NpuSleeper *sleeper) {
    if (!atomic_load(&sleeper->is_asleep))
        return;
    pthread_mutex_lock(&sleeper->mutex);
    pthread_cond_signal(&sleeper->wake);
    pthread_mutex_unlock(&sleeper->mutex);
}

/* Waits until the number is at least `least`, or (for the worker) until no more commands come. */
static void await(NpuSleeper *sleeper, const _Atomic uint64_t *number, uint64_t least, const _Atomic bool *is_ending) {
    const uint64_t until_ns = clock_now_ns() + SPIN_NS;

    do {
        for (int i = 0; i < SPINS_A_LOOK; i++) {
            if (atomic_load_explicit(number, memory_order_acquire) >= least)
                return;
            cpu_relax();
        }
    } while (clock_now_ns() < until_ns);
    pthread_mutex_lock(&sleeper->mutex);
    atomic_store(&sleeper->is_asleep, true);
    while (atomic_load(number) < least && !(is_ending && atomic_load(is_ending)))
        pthread_cond_wait(&sleeper->wake, &sleeper->mutex);
    atomic_store(&sleeper->is_asleep, false);
    pthread_mutex_unlock(&sleeper->mutex);
}

static void *work(void *arg) {
    NpuQueue *queue = arg;

    for (uint64_t number = 1;; number++) {
        const NpuCommand *command = &queue->commands[number % NPU_QUEUE_DEPTH];
        uint64_t start_ns;

        await(&queue->worker, &queue->n_submitted, number, &queue->is_ending);
        if (atomic_load(&queue->n_submitted) < number)
            return NULL;
        start_ns = clock_now_ns();
        command->fn(command->arg);
        atomic_fetch_add_explicit(&queue->busy_ns, clock_now_ns() - start_ns, memory_order_relaxed);
        atomic_store(&queue->n_ended, number);
        sleeper_wake(&queue->waiter);
    }
}

int npu_queue_new(NpuQueue **queuep) {
    _cleanup_(npu_queue_freep) NpuQueue *queue = calloc(1, sizeof(*queue));
    int r;

    if (!queue)
        return err_raise(-ENOMEM);
    sleeper_init(&queue->worker);
    sleeper_init(&queue->waiter);
    r = thread_start(&queue->thread, "npu", work, queue);
    if (r)
        return err_trace(r);
    queue->has_thread = true;
    *queuep = steal(&queue);
    return 0;
}

NpuQueue *npu_queue_free(NpuQueue *queue) {
    if (!queue)
        return NULL;
    atomic_store(&queue->is_ending, true);
    sleeper_wake(&queue->worker);
    if (queue->has_thread)
        pthread_join(queue->thread, NULL);
    sleeper_deinit(&queue->worker);
    sleeper_deinit(&queue->waiter);
    free(queue);
    return NULL;
}

uint64_t npu_queue_submit(NpuQueue *queue, NpuCommandFn *fn, void *arg) {
    const uint64_t number = atomic_load_explicit(&queue->n_submitted, memory_order_relaxed) + 1;

    if (number > NPU_QUEUE_DEPTH)
        npu_queue_wait(queue, number - NPU_QUEUE_DEPTH);
    queue->commands[number % NPU_QUEUE_DEPTH] = (NpuCommand){ fn, arg };
    atomic_store(&queue->n_submitted, number);
    sleeper_wake(&queue->worker);
    return number;
}

void npu_queue_wait(NpuQueue *queue, uint64_t number) {
    assert(number <= atomic_load(&queue->n_submitted));
    await(&queue->waiter, &queue->n_ended, number, NULL);
}

uint64_t npu_queue_n_submitted(const NpuQueue *queue) {
    return atomic_load_explicit(&queue->n_submitted, memory_order_relaxed);
}

NpuQueueCounts npu_queue_counts(const NpuQueue *queue) {
    return (NpuQueueCounts){ atomic_load(&queue->n_ended), atomic_load(&queue->busy_ns) };
}
