// SPDX-License-Identifier: Apache-2.0
/* Chooses the errand that the thread of constraints does next: users take turns by the time that their errands have
 * taken. Pure. */
#ifndef COORDGEN_DAEMON_CONSTRAINT_TURNS_H
#define COORDGEN_DAEMON_CONSTRAINT_TURNS_H

#include "daemon/constraint/constraint_errand.h"

enum {
    CONSTRAINT_TURNS_USERS = 64, /* with more users the one who has taken least begins anew */
};

/* The time that a user's errands have taken, on a clock that leaves idle users no claim. */
typedef struct ConstraintTime {
    uint32_t uid;
    uint64_t until_ns; /* 0: a free place */
} ConstraintTime;

typedef struct ConstraintTurns { /* zero is empty */
    ConstraintTime users[CONSTRAINT_TURNS_USERS];
    uint64_t clock_ns; /* until_ns of the user served last, before that */
} ConstraintTurns;

/* A user's errand joins the queue. */
void constraint_turns_arrive(ConstraintTurns *turns, uint32_t uid);
/* Returns the first errand of the user who has taken least time; NULL: the queue is empty. */
ConstraintErrand *constraint_turns_next(ConstraintTurns *turns, const ConstraintErrandList *queue);
/* The user's errand took ns. */
void constraint_turns_took(ConstraintTurns *turns, uint32_t uid, uint64_t ns);

#endif
