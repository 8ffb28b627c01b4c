// SPDX-License-Identifier: Apache-2.0
/* What answers and texts share: their generations, within the user's share of memory, and their ends. Thread: the
 * engine's. */
#ifndef COORDGEN_DAEMON_TURNS_GENERATION_H
#define COORDGEN_DAEMON_TURNS_GENERATION_H

#include "daemon/engine/turns_state.h"

int turns_generation_code(int r); /* JOB_E_* of a GENERATION_E_*; -errno as it is */
/* Returns the job's options, limited to the rest of the user's share of KV memory. The job has no generation. */
GenerationOptions turns_options_within_share(const Turns *turns, Job *job);
/* Makes a generation. If memory is short, it goes without its draft model, and earlier answers make way. 0, JOB_E_*,
 * -errno. */
int turns_new_generation(Turns *turns, Job *job, const TokenList *prompt, GenerationOptions *options,
                         Generation **generationp, ErrText *err);
/* Frees the answers of a request that cannot begin. */
void turns_drop_answers(Turns *turns, Job *job);
/* Ends an answer: a request with several ends with the last of them. The loop thread may have the request from here on.
 */
void turns_end_answer(Turns *turns, Job *job, GenerationEnd end, int result, const ErrText *err);

#endif
