// SPDX-License-Identifier: Apache-2.0
/* Which generations take the next step, and how much time a step gets that has made way for others. Decides over claims
 * that it is given, and knows no generation. */
#ifndef COORDGEN_SCHEDULER_TURN_ORDER_H
#define COORDGEN_SCHEDULER_TURN_ORDER_H

#include <stdbool.h>

#include "scheduler/requests/priority.h"

/* Rows of a step beside a parked one, which cannot make way itself: two steps have memory. */
#define TURN_ORDER_BESIDE_ROWS 64
/* A parked background step gets one part in so many of the time of steps of a higher class. */
#define TURN_ORDER_BACKGROUND_PART 8

/* A generation without rows in a step that has begun. */
typedef struct TurnClaim {
    const void *engine; /* compared, never read */
    Standing standing;
    bool may_run;    /* the client reads, or the generation is cancelled */
    bool has_begun;  /* the first turn is over; only then the generation may have rows */
    bool has_output; /* the first token is there */
} TurnClaim;

/* A step that has made way. */
typedef struct ParkedStep {
    Priority top;  /* the highest class of its generations */
    Priority rank; /* the highest class that one of them counts as after waiting */
    bool waits;    /* for weights to arrive */
} ParkedStep;

/* How much of the time of a higher class's step others get behind it. */
typedef enum TurnPart {
    TURN_PART_NONE,
    TURN_PART_SMALL, /* one part in TURN_ORDER_BACKGROUND_PART */
    TURN_PART_EQUAL, /* as much as the step took */
} TurnPart;

/* Returns whether the generation can have rows in a step. */
bool turn_order_is_ready(const TurnClaim *claim);
/* Returns whether a ready generation is of a higher class than `top`: a running step of that class makes way for it. */
bool turn_order_is_above(const TurnClaim *claim, Priority top);
/* Returns whether a ready generation takes a step before the parked one goes on. */
bool turn_order_goes_before_parked(const TurnClaim *claim, const ParkedStep *parked);
/* Returns whether a ready generation takes turns by its rank, on any engine but `except`. Interactive ones do not: they
 * go first. */
bool turn_order_takes_turns(const TurnClaim *claim, const void *except);
/* Returns whether a generation of class `top` or higher waits for its first token. */
bool turn_order_awaits_token(const TurnClaim *claim, Priority top);
/* Returns whether the generation may have its first turn; is_awaited: an interactive one waits for its first token. */
bool turn_order_may_begin(const TurnClaim *claim, bool is_awaited);
/* Returns whether a prompt stays out of a step for class `top`, because of the parked step (NULL: there is none). */
bool turn_order_stands_back(const TurnClaim *claim, const ParkedStep *parked, Priority top);
/* Returns how much time the parked step gets behind a step of class `top`, or, if none is parked (NULL), a generation
 * of another engine (NULL: there is none); is_awaited: one of class `top` waits for its first token. */
TurnPart turn_order_part(const ParkedStep *parked, const TurnClaim *other, Priority top, bool is_awaited);

#endif
