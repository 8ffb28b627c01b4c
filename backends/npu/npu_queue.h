// SPDX-License-Identifier: Apache-2.0
/* The command queue of the npu device: commands run one after the other on a thread of the queue, while the submitter
 * does other work. The queue knows no graph and no matrix. */
#ifndef COORDGEN_BACKENDS_NPU_NPU_QUEUE_H
#define COORDGEN_BACKENDS_NPU_NPU_QUEUE_H

#include <stdint.h>

#include "base/cleanup.h"

#define NPU_QUEUE_DEPTH 16 /* commands that have not ended, at most */

typedef void NpuCommandFn(void *arg);

typedef struct NpuQueue NpuQueue;

/* Starts the thread. 0 or -errno. */
int npu_queue_new(NpuQueue **queuep);
/* Waits for all commands. */
NpuQueue *npu_queue_free(NpuQueue *queue);
DEFINE_CLEANUP(NpuQueue, npu_queue_free)

/* Has fn(arg) run after all earlier commands. Waits if NPU_QUEUE_DEPTH commands have not ended. Returns the command's
 * number. Thread: one submits and waits. Allocates nothing. */
uint64_t npu_queue_submit(NpuQueue *queue, NpuCommandFn *fn, void *arg);
/* Returns when the command of that number has ended, and all before it. */
void npu_queue_wait(NpuQueue *queue, uint64_t number);

/* Returns the number of the last command; 0: there was none. Thread: the one that submits. */
uint64_t npu_queue_n_submitted(const NpuQueue *queue);

/* Counts since the queue was made. */
typedef struct NpuQueueCounts {
    uint64_t n_commands, busy_ns; /* of commands that have ended */
} NpuQueueCounts;
NpuQueueCounts npu_queue_counts(const NpuQueue *queue); /* any thread */

#endif
