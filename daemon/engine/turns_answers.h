// SPDX-License-Identifier: Apache-2.0
/* Begins generations, and passes on what steps give them. Thread: the engine's. */
#ifndef COORDGEN_DAEMON_TURNS_ANSWERS_H
#define COORDGEN_DAEMON_TURNS_ANSWERS_H

#include "daemon/engine/turns_state.h"

/* Takes a job's first turn. Returns whether the job goes on; otherwise the loop thread has it already. */
bool turns_first_turn(Turns *turns, Job *job);
/* Takes the result of a step for a job. Returns whether the job goes on; otherwise the loop thread has it already. */
bool turns_took_turn(Turns *turns, Job *job, int r, ErrText *err);
/* Receives text, as a GenerationDeltaFn; arg is a StepTarget. */
void turns_on_delta(void *arg, const GenerationDelta *delta);

#endif
