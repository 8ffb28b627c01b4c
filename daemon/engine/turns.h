// SPDX-License-Identifier: Apache-2.0
/* Decides which generations of the engine thread take the next step, by their classes, and which step yields. */
#ifndef COORDGEN_DAEMON_TURNS_H
#define COORDGEN_DAEMON_TURNS_H

#include "daemon/constraint/constraint_store.h"
#include "daemon/engine/outbox.h"
#include "daemon/history/histories.h"

typedef struct Turns Turns; /* used by the engine thread, except functions marked "any thread" */

int turns_new(Turns **turnsp, Outbox *outbox);
Turns *turns_free(Turns *turns); /* no job is left in the turns */
DEFINE_CLEANUP(Turns, turns_free)

/* Sets the store of earlier answers, from which drafts come, before the first job. histories outlives the turns. */
void turns_use_histories(Turns *turns, Histories *histories);
/* Sets the store whose constraints make way when memory is short, before the first job. It outlives the turns. */
void turns_use_constraints(Turns *turns, ConstraintStore *constraints);

void turns_add(Turns *turns, Job *job); /* a generation that has just arrived */
bool turns_have_work(const Turns *turns);
bool turns_have_interactive(const Turns *turns); /* an interactive job may run */
/* Takes a turn: first turns of new jobs, then a step, or a part of the step that has yielded. Returns the time of the
 * turn, in ns, that a step of an interactive job took. */
uint64_t turns_take(Turns *turns);
void turns_cancel_all(Turns *turns);

/* Any thread: tells that a job of the class can run, or that all must end (PRIORITY_INTERACTIVE). A running step of a
 * lower class yields at its next operator; a normal job interrupts steps of background jobs only. */
void turns_interrupt(Turns *turns, Priority priority);
bool turns_are_wanted(const Turns *turns); /* any thread: an interactive job has interrupted, before turns_resume() */
void turns_resume(Turns *turns);           /* the job of the interrupt has been added */
uint64_t turns_n_preempted(const Turns *turns); /* any thread: the number of steps that yielded */

#endif
