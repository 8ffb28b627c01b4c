// SPDX-License-Identifier: Apache-2.0
/* Whose turn it is: the generations of the engine thread, their classes, and the step that has made way for another. */
#ifndef COORDGEN_DAEMON_TURNS_H
#define COORDGEN_DAEMON_TURNS_H

#include "daemon/engine/outbox.h"
#include "daemon/history/histories.h"

typedef struct Turns Turns; /* all engine thread, but what is marked */

int turns_new(Turns **turnsp, Outbox *outbox);
Turns *turns_free(Turns *turns); /* nothing is in them any more */
DEFINE_CLEANUP(Turns, turns_free)

/* Before the first job: where drafts from earlier answers come from, and answers go to. Outlives the turns. */
void turns_use_histories(Turns *turns, Histories *histories);

void turns_add(Turns *turns, Job *job); /* a generation that has just arrived */
bool turns_have_work(const Turns *turns);
bool turns_have_interactive(const Turns *turns); /* a job of that class that may run */
/* One turn: first turns of those that have had none, then a step, or a part of the one that has made way. Return: the
 * nanoseconds of it that went to a step of an interactive job. */
uint64_t turns_take(Turns *turns);
void turns_cancel_all(Turns *turns);

/* Any thread: a job of that class can run, or all must end (PRIORITY_INTERACTIVE). The step that runs makes way at its
 * next operator where it is of a lower class: for a normal job where it is of background ones alone. */
void turns_interrupt(Turns *turns, Priority priority);
bool turns_are_wanted(const Turns *turns);      /* any thread: asked for by an interactive job, and not resumed */
void turns_resume(Turns *turns);                /* what it was for is in the turns now */
uint64_t turns_n_preempted(const Turns *turns); /* any thread: steps that have made way */

#endif
