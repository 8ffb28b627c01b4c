// SPDX-License-Identifier: Apache-2.0
/* The one thread that computes. Generations share steps by class. A step of lower classes makes way for an interactive
 * job at its next operator, and goes on later. Small jobs are served between steps. */
#ifndef COORDGEN_DAEMON_ENGINE_THREAD_H
#define COORDGEN_DAEMON_ENGINE_THREAD_H

#include "daemon/constraint/constraint_store.h"
#include "daemon/engine/outbox.h"
#include "daemon/history/histories.h"

typedef struct EngineThread EngineThread;

int engine_thread_new(EngineThread **threadp, Outbox *outbox, unsigned int n_threads, ErrText *err);
/* Set the histories, and the constraints that are kept, before the first job: see turns.h. */
void engine_thread_use_histories(EngineThread *thread, Histories *histories);
void engine_thread_use_constraints(EngineThread *thread, ConstraintStore *constraints);
void engine_thread_wake(EngineThread *thread); /* any thread: there are news in the histories */
/* Cancels everything; the thread ends after its current step. Loop. 0, or -ETIMEDOUT: the thread still runs. */
int engine_thread_stop(EngineThread *thread, uint64_t timeout_ms);
EngineThread *engine_thread_free(EngineThread *thread); /* after engine_thread_stop() and the end of all engines */
DEFINE_CLEANUP(EngineThread, engine_thread_free)

/* Hands over a job, which must not move until its news say done. Loop. */
void engine_thread_submit(EngineThread *thread, Job *job);
void engine_thread_cancel(EngineThread *thread, Job *job);
void engine_thread_pause(EngineThread *thread, Job *job, bool paused);

/* Number of steps that have made way since the start. Any thread. */
uint64_t engine_thread_n_preempted(const EngineThread *thread);

/* Signs of life for the watchdog. */
typedef struct EngineThreadPulse {
    uint64_t n_beats;       /* grows with every step, job and operator */
    uint64_t busy_since_ns; /* begin of the current step; 0: idle */
} EngineThreadPulse;
EngineThreadPulse engine_thread_pulse(const EngineThread *thread); /* any thread */

#endif
