// SPDX-License-Identifier: Apache-2.0
/* The one thread that computes. Generations share steps, by class; a step of lower classes makes way for an interactive
 * job at its next operator and goes on later. Small jobs are served between steps. */
#ifndef COORDGEN_DAEMON_ENGINE_THREAD_H
#define COORDGEN_DAEMON_ENGINE_THREAD_H

#include "daemon/engine/outbox.h"
#include "daemon/history/histories.h"

typedef struct EngineThread EngineThread;

int engine_thread_new(EngineThread **threadp, Outbox *outbox, unsigned int n_threads, ErrText *err);
/* Before the first job: see turns.h. */
void engine_thread_use_histories(EngineThread *thread, Histories *histories);
void engine_thread_wake(EngineThread *thread); /* any thread: there are news in the histories */
/* Loop. Everything is cancelled; the thread ends after the step it is in. 0, or -ETIMEDOUT: it still runs. */
int engine_thread_stop(EngineThread *thread, uint64_t timeout_ms);
EngineThread *engine_thread_free(EngineThread *thread); /* stopped before, all engines freed before */
DEFINE_CLEANUP(EngineThread, engine_thread_free)

/* Loop. The job is the thread's until its news say done; it must stay where it is until then. */
void engine_thread_submit(EngineThread *thread, Job *job);
void engine_thread_cancel(EngineThread *thread, Job *job);
void engine_thread_pause(EngineThread *thread, Job *job, bool paused);

/* Steps that have made way since the start. Any thread. */
uint64_t engine_thread_n_preempted(const EngineThread *thread);

/* For the watchdog. Any thread. */
typedef struct EngineThreadPulse {
    uint64_t n_beats;       /* grows with every step, job and operator */
    uint64_t busy_since_ns; /* 0: idle; else when the step that runs began */
} EngineThreadPulse;
EngineThreadPulse engine_thread_pulse(const EngineThread *thread);

#endif
