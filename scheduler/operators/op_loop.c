// SPDX-License-Identifier: Apache-2.0
/*
 * The decisions are those of one thread, so that there is nothing to lock. While it runs an operator, the NPU's queue
 * has the product that runs and one more. What makes a product ready is nearly always an operator of this thread, so
 * that the queue seldom waits for the thread to look.
 */
#include "scheduler/operators/op_loop.h"

#include <assert.h>

int op_loop_end_oldest(OpLoop *loop, ErrText *err) {
    const size_t slot = loop->oldest;
    int r;

    assert(loop->n_busy);
    r = loop->ops->end(loop->arg, slot, &loop->refs[slot], err);
    loop->oldest = (slot + 1) % loop->n_slots;
    loop->n_busy--;
    if (r)
        op_queues_put_back(loop->queues, &loop->refs[slot], OP_QUEUE_NPU);
    return r;
}

static int run_here(OpLoop *loop, const OpRef *ref, bool is_stolen, ErrText *err) {
    int r = loop->ops->run(loop->arg, ref, is_stolen, err);

    if (r)
        op_queues_put_back(loop->queues, ref, OP_QUEUE_CPU);
    return r;
}

/* Gives the NPU's queue what there is for it, while it has a slot. A product that the queue's own side has taken, and
 * that the processors are to run, is run at once: nobody else may take it. */
static int submit_products(OpLoop *loop, ErrText *err) {
    OpRef ref;
    int r = 0;

    while (!r && loop->n_busy < loop->n_slots && op_queues_take(loop->queues, OP_QUEUE_NPU, &ref)) {
        const size_t slot = (loop->oldest + loop->n_busy) % loop->n_slots;

        if (loop->ops->runs_here && loop->ops->runs_here(loop->arg, &ref)) {
            op_queues_give(loop->queues, &ref);
            r = run_here(loop, &ref, false, err);
            continue;
        }
        loop->ops->submit(loop->arg, slot, &ref);
        loop->refs[slot] = ref;
        loop->n_busy++;
    }
    return r;
}

int op_loop_go_on(OpLoop *loop, ErrText *err) {
    OpRef ref;
    int r = 0;

    while (!r && loop->n_busy && loop->ops->is_over(loop->arg, loop->oldest))
        r = op_loop_end_oldest(loop, err);
    if (!r)
        r = submit_products(loop, err);
    if (r)
        return r;
    if (op_queues_take(loop->queues, OP_QUEUE_CPU, &ref))
        return run_here(loop, &ref, false, err);
    if (op_queues_steal(loop->queues, &ref))
        return run_here(loop, &ref, true, err);
    return loop->n_busy ? op_loop_end_oldest(loop, err) : 0;
}
