// SPDX-License-Identifier: Apache-2.0
#include "daemon/constraint/constraint_turns.h"

#include "base/min_max.h"

/* Returns the user's place; a new user takes a free one, or that of the user who has taken least. */
static ConstraintTime *time_of(ConstraintTurns *turns, uint32_t uid) {
    ConstraintTime *least = &turns->users[0];

    for (size_t i = 0; i < CONSTRAINT_TURNS_USERS; i++) {
        if (turns->users[i].until_ns && turns->users[i].uid == uid)
            return &turns->users[i];
        if (turns->users[i].until_ns < least->until_ns)
            least = &turns->users[i];
    }
    *least = (ConstraintTime){ uid, MAX(turns->clock_ns, UINT64_C(1)) };
    return least;
}

void constraint_turns_arrive(ConstraintTurns *turns, uint32_t uid) {
    ConstraintTime *time = time_of(turns, uid);

    time->until_ns = MAX(time->until_ns, turns->clock_ns);
}

ConstraintErrand *constraint_turns_next(ConstraintTurns *turns, const ConstraintErrandList *queue) {
    ConstraintErrand *errand, *next = NULL;
    uint64_t least_ns = UINT64_MAX;

    TAILQ_FOREACH (errand, queue, link) {
        const uint64_t until_ns = time_of(turns, errand->uid)->until_ns;

        if (until_ns >= least_ns)
            continue;
        least_ns = until_ns;
        next = errand;
    }
    if (next)
        turns->clock_ns = least_ns;
    return next;
}

void constraint_turns_took(ConstraintTurns *turns, uint32_t uid, uint64_t ns) {
    ConstraintTime *time = time_of(turns, uid);

    time->until_ns = MAX(time->until_ns, turns->clock_ns) + ns;
}
