// SPDX-License-Identifier: Apache-2.0
/* News of jobs on their way from the engine thread to the loop: a list under a lock, an eventfd that wakes the loop. */
#ifndef COORDGEN_DAEMON_OUTBOX_H
#define COORDGEN_DAEMON_OUTBOX_H

#include "daemon/engine/job.h"

typedef struct Outbox Outbox;

int outbox_new(Outbox **outboxp);
Outbox *outbox_free(Outbox *outbox); /* no thread may use the outbox any more; its jobs are forgotten */
DEFINE_CLEANUP(Outbox, outbox_free)

int outbox_fd(const Outbox *outbox); /* readable when there are news */
void outbox_lock(Outbox *outbox);
void outbox_unlock(Outbox *outbox);
/* Engine thread, locked: announces that the job's news have changed. */
void outbox_post_locked(Outbox *outbox, Job *job);
/* Engine thread: frees a job's generation, if it has one, with what belongs to it, and returns its usage in *usagep.
 * Return: whether there was a generation. */
bool outbox_release(Outbox *outbox, Job *job, GenerationUsage *usagep);
/* Engine thread: reports the end of a job, whose generation is freed already. The loop owns the job from here on. */
void outbox_finish(Outbox *outbox, Job *job, GenerationEnd end, int result, const ErrText *err);
/* Loop: makes the fd unreadable, once before news are taken. */
void outbox_quiet(Outbox *outbox);
/* Loop: makes the fd readable again, for news that were not taken. */
void outbox_call(Outbox *outbox);
/* Loop: returns the next job with news, which move to the caller; NULL: none. */
Job *outbox_take(Outbox *outbox, JobNews *news);

#endif
