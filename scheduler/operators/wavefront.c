// SPDX-License-Identifier: Apache-2.0
/*
 * A thread takes the least advanced group that can go on; of equal groups the first. The groups therefore stay close
 * together, and all of them use the weights of an operator while these are in a cache.
 *
 * A thread that has lost its processor holds one operator of one group; the other threads go on until they need its
 * result. If nothing can go on, threads spin for a moment and then sleep in naps, for the thread that they wait for may
 * need their processor.
 *
 * The pool sees one loop over all operators that are left. A pool that has stopped using its workers can therefore let
 * them in again in the middle. An index of the loop stands for any node.
 */
#include "scheduler/operators/wavefront.h"

#include <assert.h>
#include <time.h>

#include "base/min_max.h"
#include "base/system/cpu.h"

#define SPINS 2000   /* before a waiting thread takes a nap; 30 to 100 us, and most waits are shorter */
#define NAP_NS 50000 /* of the first nap; the system adds about as much. Operators of 64 rows take 0.2 to 10 ms */
#define NAPS 4       /* each nap is twice as long as the one before, up to this number */

typedef struct Run {
    Wavefront *front;
    const WavefrontWork *work;
    _Atomic int result; /* 0, WAVEFRONT_E_STOPPED or the first -errno; if not 0, nobody begins another operator */
} Run;

typedef enum Take {
    TAKE_ONE,
    TAKE_NONE_NOW,
    TAKE_ALL_ENDED
} Take;

void wavefront_begin(Wavefront *front, const OpGraph *graph, size_t n_groups, uint32_t n_layers) {
    assert(n_groups && n_groups <= WAVEFRONT_GROUPS_MAX && n_layers && graph->n);
    front->n_groups = n_groups;
    front->graph = graph;
    front->n_nodes = n_layers * (uint32_t)graph->n;
    for (size_t i = 0; i < n_groups; i++) {
        atomic_store_explicit(&front->groups[i].at, 0, memory_order_relaxed);
        atomic_store_explicit(&front->groups[i].n_ready, 0, memory_order_relaxed);
        atomic_store_explicit(&front->groups[i].is_taken, false, memory_order_relaxed);
        front->groups[i].continues = false;
    }
}

void wavefront_continue(Wavefront *front, size_t group) {
    assert(group && group < front->n_groups);
    front->groups[group].continues = true;
}

void wavefront_ready(Wavefront *front, size_t group) {
    const uint32_t at = atomic_load_explicit(&front->groups[group].at, memory_order_relaxed);

    atomic_store_explicit(&front->groups[group].n_ready, at + 1, memory_order_release);
}

/* Whether a group may run its node `at`. If it may, what the group before has written is visible. */
static bool can_go_on(const Wavefront *front, size_t group, uint32_t at) {
    return !front->groups[group].continues || !front->graph->nodes[at % front->graph->n].follows ||
           atomic_load_explicit(&front->groups[group - 1].n_ready, memory_order_acquire) > at;
}

/* Returns the least advanced group that nobody runs and that can go on; n_groups: none. */
static size_t best_group(const Wavefront *front, bool *all_endedp) {
    size_t best = front->n_groups;
    uint32_t best_at = front->n_nodes;

    *all_endedp = true;
    for (size_t i = 0; i < front->n_groups; i++) {
        const uint32_t at = atomic_load_explicit(&front->groups[i].at, memory_order_relaxed);

        if (at == front->n_nodes)
            continue;
        *all_endedp = false;
        if (at >= best_at || atomic_load_explicit(&front->groups[i].is_taken, memory_order_relaxed) ||
            !can_go_on(front, i, at))
            continue;
        best = i;
        best_at = at;
    }
    return best;
}

/* Takes a group. Another thread may have been faster, and may even have run the operator and left the group again. */
static Take take_group(const Run *run, size_t *groupp, uint32_t *atp) {
    Wavefront *front = run->front;
    bool all_ended;

    for (;;) {
        const size_t i = best_group(front, &all_ended);
        WavefrontGroup *group = &front->groups[i];

        if (i == front->n_groups)
            return all_ended ? TAKE_ALL_ENDED : TAKE_NONE_NOW;
        if (atomic_exchange_explicit(&group->is_taken, true, memory_order_acquire))
            continue;
        *groupp = i;
        *atp = atomic_load_explicit(&group->at, memory_order_relaxed);
        if (*atp < front->n_nodes && can_go_on(front, i, *atp))
            return TAKE_ONE;
        atomic_store_explicit(&group->is_taken, false, memory_order_release);
    }
}

static void end_with(Run *run, int result) {
    int none = 0;

    atomic_compare_exchange_strong(&run->result, &none, result);
}

static void advance(Run *run, size_t group_index, uint32_t at, unsigned int worker) {
    WavefrontGroup *group = &run->front->groups[group_index];
    const uint32_t n = (uint32_t)run->front->graph->n;
    const int r = run->work->run(run->work->arg, group_index, at / n, at % n, worker);

    if (r) {
        end_with(run, r);
    } else {
        atomic_store_explicit(&group->n_ready, at + 1, memory_order_release);
        atomic_store_explicit(&group->at, at + 1, memory_order_relaxed);
    }
    atomic_store_explicit(&group->is_taken, false, memory_order_release);
    if (run->work->stops(run->work->arg))
        end_with(run, WAVEFRONT_E_STOPPED);
}

/* Waits for the nth time in a row. */
static void wait_a_moment(unsigned int n) {
    if (n < SPINS) {
        cpu_relax();
        return;
    }
    n -= SPINS;
    (void)nanosleep(&(struct timespec){ .tv_nsec = NAP_NS << MIN(n, NAPS) }, NULL);
}

/* Runs a part of the pool's loop: end - begin operators of any groups, or fewer if all groups are at the end. */
static void advance_groups(void *arg, size_t begin, size_t end, unsigned int worker) {
    Run *run = arg;
    unsigned int n_waits = 0;

    for (size_t left = end - begin; left && !atomic_load_explicit(&run->result, memory_order_relaxed);) {
        size_t group;
        uint32_t at;
        const Take take = take_group(run, &group, &at);

        if (take == TAKE_ALL_ENDED)
            return;
        if (take == TAKE_ONE) {
            advance(run, group, at, worker);
            n_waits = 0;
            left--;
            continue;
        }
        wait_a_moment(n_waits++);
    }
}

bool wavefront_has_ended(const Wavefront *front) {
    for (size_t i = 0; i < front->n_groups; i++)
        if (atomic_load_explicit(&front->groups[i].at, memory_order_relaxed) < front->n_nodes)
            return false;
    return true;
}

int wavefront_run(Wavefront *front, WorkerPool *pool, const WavefrontWork *work) {
    Run run = { .front = front, .work = work };
    size_t n_left = 0;

    for (size_t i = 0; i < front->n_groups; i++)
        n_left += front->n_nodes - atomic_load_explicit(&front->groups[i].at, memory_order_relaxed);
    worker_pool_run(pool, advance_groups, &run, n_left, 1);
    return wavefront_has_ended(front) ? 0 : atomic_load(&run.result);
}
