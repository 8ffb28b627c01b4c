// SPDX-License-Identifier: Apache-2.0
/* The state of the turns, for turns.c and turns_answers.c. The engine thread owns all fields without a mark. */
#ifndef COORDGEN_DAEMON_TURNS_STATE_H
#define COORDGEN_DAEMON_TURNS_STATE_H

#include "daemon/constraint/constraint_store.h"
#include "daemon/engine/outbox.h"
#include "daemon/history/histories.h"

typedef struct Turns Turns;
typedef struct Company Company;

struct Turns {
    Outbox *outbox;               /* const */
    Histories *histories;         /* NULL: answers are not stored */
    ConstraintStore *constraints; /* NULL: none are kept */
    JobList active;               /* in the order of their turns, without jobs of a begun step */
    Company *companies;           /* [2]: one runs, the other may have yielded */
    Company *parked;              /* the company that has yielded; NULL: none */
    Company *settling;            /* the company whose results are handed out; NULL: none */
    bool parked_waits;            /* the parked step waits for weights to arrive */
    int64_t parked_credit_ns;     /* time that a parked background step may take beside a higher class */
    _Atomic bool wanted;          /* any thread: the running step must yield */
    _Atomic bool wanted_above;    /* any thread: a running step of background generations alone must yield */
    _Atomic uint64_t n_preempted; /* any thread */
};

typedef struct StepTarget {
    Turns *turns;
    Job *job; /* NULL: not in the step */
    int r;
} StepTarget;

struct Company {
    StepTarget targets[GENERATION_TURNS_MAX];
    GenerationTurn turns[GENERATION_TURNS_MAX];
    size_t n;
    GenerationStep step;
    Priority top; /* the highest class in the step */
};

#endif
