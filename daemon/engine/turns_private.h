// SPDX-License-Identifier: Apache-2.0
/* Inside of the turns: what turns.c (whose step it is) shares with turns_answers.c (how generations begin, and what
 * steps give them). All on the engine thread, but what is marked. */
#ifndef COORDGEN_DAEMON_TURNS_PRIVATE_H
#define COORDGEN_DAEMON_TURNS_PRIVATE_H

#include "daemon/engine/turns.h"

typedef struct Company Company;

struct Turns {
    Outbox *outbox;               /* const */
    Histories *histories;         /* NULL: nothing is kept of answers */
    JobList active;               /* in the order of their turns; without those whose step has begun */
    Company *companies;           /* [2]: one runs, the other may have made way */
    Company *parked;              /* the one that has; NULL: none */
    bool parked_waits;            /* for weights that are on their way */
    int64_t parked_credit_ns;     /* of time that a parked background step may take beside a higher class */
    _Atomic bool wanted;          /* any thread: the step that runs is to make way */
    _Atomic bool wanted_above;    /* any thread: one of background generations alone is */
    _Atomic uint64_t n_preempted; /* any thread */
};

typedef struct StepTarget {
    Turns *turns;
    Job *job;
    int r;
} StepTarget;

struct Company {
    Job *jobs[GENERATION_TURNS_MAX]; /* NULL: it is not in the step */
    StepTarget targets[GENERATION_TURNS_MAX];
    GenerationTurn turns[GENERATION_TURNS_MAX];
    size_t n;
    GenerationStep step;
    Priority top; /* the highest class of those in the step */
};

/* A job's first turn. Return: whether it goes on; if not, the job is the loop's already. */
bool turns_first_turn(Turns *turns, Job *job);
/* What a step has given a job. Return: whether it goes on; if not, the job is the loop's already. */
bool turns_took_turn(Turns *turns, Job *job, int r, ErrText *err);
/* A GenerationDeltaFn; its arg is a StepTarget. */
void turns_on_delta(void *arg, const char *text, size_t len_bytes, const uint32_t *tokens, size_t n_tokens);

#endif
