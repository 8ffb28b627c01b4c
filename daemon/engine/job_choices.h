// SPDX-License-Identifier: Apache-2.0
/* The answers of a request that asks for several: each further answer is a job of its own, which only the engine thread
 * knows. The request's own job has the first answer, and all news. */
#ifndef COORDGEN_DAEMON_JOB_CHOICES_H
#define COORDGEN_DAEMON_JOB_CHOICES_H

#include "daemon/engine/job.h"

#define JOB_CHOICES_MAX 16

/* How an answer ended. */
typedef struct JobChoiceEnd {
    GenerationEnd end; /* GENERATION_RUNNING: it has not ended */
    GenerationUsage usage;
} JobChoiceEnd;

struct JobChoices {
    uint32_t n;                         /* answers */
    _Atomic uint32_t n_left;            /* answers that have not ended; the loop reads it */
    JobChoiceEnd ends[JOB_CHOICES_MAX]; /* [n] */
    int result;                         /* of the first failure that counts, with its text; 0: none has failed */
    ErrText err;
    bool has_failed; /* the request has: an answer has failed in a way that is not its own */
    DraftReport sum; /* the loop's */
    Job further[];   /* [n - 1] */
};

/* Makes the further answers of a job: as the job, with the seed of each. Without generations. NULL: no memory. Thread:
 * the engine thread, like the functions below that say nothing else. */
JobChoices *job_choices_new(Job *asked);
/* Frees the answers, which have no generations. Thread: the loop too, once the job is done. */
JobChoices *job_choices_free(JobChoices *choices);

/* Returns the job of the request that an answer belongs to. */
static inline Job *job_asked(Job *job) {
    return job->run.asked ? job->run.asked : job;
}

/* Returns the job of answer i. */
static inline Job *job_of_choice(Job *asked, uint32_t i) {
    return i ? &asked->run.choices->further[i - 1] : asked;
}

/* Whether the answer is one of those that may run now: the first ones that have not ended, as the job's width says. */
bool job_answer_has_place(const Job *job);
/* Returns the usage of all answers so far: the prompt counts once, output is summed, and times are the longest. Of
 * texts everything but times is summed. */
GenerationUsage job_usage(const Job *asked);
/* Cancels every answer. Thread: any, under the outbox's lock. */
void job_cancel_answers(Job *asked);
/* Returns the sum of what drafts brought all answers. Thread: the loop, after the news about the prompt. */
const DraftReport *job_report(Job *asked);

#endif
