// SPDX-License-Identifier: Apache-2.0
/* Texts of requests for vectors, begun one after the other as places become free. */
#ifndef COORDGEN_DAEMON_TURNS_TEXTS_H
#define COORDGEN_DAEMON_TURNS_TEXTS_H

#include "daemon/engine/turns_state.h"

/* Begins the first texts of a job, as many as may run at a time and as memory allows. 0, JOB_E_*, -errno. */
int turns_begin_texts(Turns *turns, Job *job, ErrText *err);
/* Takes the vector of a text that has ended, and begins the next text. Return: whether the lane goes on. */
bool turns_took_vector(Turns *turns, Job *job);

#endif
