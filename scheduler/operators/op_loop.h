// SPDX-License-Identifier: Apache-2.0
/* The loop of the thread that decides for the NPU and for the processors: it looks which products are over, gives the
 * NPU's queue new ones while it has a slot, and then has one operator run by the processors. The engine runs it over
 * what it computes, and op_placement over simulated times: both decide alike. */
#ifndef COORDGEN_SCHEDULER_OP_LOOP_H
#define COORDGEN_SCHEDULER_OP_LOOP_H

#include "backends/backend.h"
#include "base/err.h"
#include "scheduler/operators/op_queues.h"

/* Carries out what the loop decides. `end` and `run` call op_queues_end() when they succeed; 0, or an error that the
 * loop hands on. */
typedef struct OpLoopOps {
    /* Whether the processors run a product that the NPU's queue would have; NULL: they never do. */
    bool (*runs_here)(void *arg, const OpRef *ref);
    /* The NPU begins with a product when it has ended those before. */
    void (*submit)(void *arg, size_t slot, const OpRef *ref);
    bool (*is_over)(void *arg, size_t slot);
    /* Waits for the product of a slot. */
    int (*end)(void *arg, size_t slot, const OpRef *ref, ErrText *err);
    /* Runs a node on the processors; is_stolen: it was waiting in the NPU's queue. */
    int (*run)(void *arg, const OpRef *ref, bool is_stolen, ErrText *err);
} OpLoopOps;

/* Thread: one. Slots of the NPU's queue are used in turns, and their products end in this order. */
typedef struct OpLoop {
    const OpLoopOps *ops;
    void *arg;
    OpQueues *queues;
    size_t n_slots; /* 1..BACKEND_PRODUCT_SLOTS_MAX */
    OpRef refs[BACKEND_PRODUCT_SLOTS_MAX];
    size_t oldest, n_busy;
} OpLoop;

/* Goes on until something has ended or was run, or all has ended. 0, or a node's error; the node can be taken again. */
int op_loop_go_on(OpLoop *loop, ErrText *err);
/* Waits for the product that began first, which is there. Returns as op_loop_go_on(). */
int op_loop_end_oldest(OpLoop *loop, ErrText *err);

#endif
