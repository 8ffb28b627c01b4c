// SPDX-License-Identifier: Apache-2.0
#include "scheduler/requests/turn_order.h"

#include <stddef.h>

bool turn_order_is_ready(const TurnClaim *claim) {
    return claim->may_run && claim->has_begun;
}

bool turn_order_is_above(const TurnClaim *claim, Priority top) {
    return turn_order_is_ready(claim) && claim->standing.priority > top;
}

/* While the parked step waits for weights, nobody holds it up by taking turns with it. */
bool turn_order_goes_before_parked(const TurnClaim *claim, const ParkedStep *parked) {
    return !parked->waits && turn_order_is_above(claim, parked->top);
}

bool turn_order_takes_turns(const TurnClaim *claim, const void *except) {
    return turn_order_is_ready(claim) && claim->standing.priority != PRIORITY_INTERACTIVE && claim->engine != except;
}

bool turn_order_awaits_token(const TurnClaim *claim, Priority top) {
    return turn_order_is_ready(claim) && claim->standing.priority >= top && !claim->has_output;
}

/* A first turn renders and tokenizes a prompt, which does not stop in between. */
bool turn_order_may_begin(const TurnClaim *claim, bool is_awaited) {
    return claim->may_run && !claim->has_begun && (claim->standing.rank == PRIORITY_INTERACTIVE || !is_awaited);
}

/**
 * turn_order_stands_back() - whether a prompt stays out of steps of a higher class for now
 *
 * Only the parked step may take time beside them. Waiting raises the prompt above that, except beside a background
 * step, whose class has its own part of the time.
 */
bool turn_order_stands_back(const TurnClaim *claim, const ParkedStep *parked, Priority top) {
    return parked && !parked->waits && claim->standing.priority < top && claim->standing.priority <= parked->top &&
           (claim->standing.rank < top || parked->top == PRIORITY_BACKGROUND) && !claim->has_output;
}

/**
 * turn_order_part() - time of others behind a step of a class
 *
 * While somebody of the class waits for the first token, others get nothing, until waiting raises them to that class.
 * Beside answers a parked background step gets a small part, and all others as much time as the step took. A token of
 * the class so comes after at most twice its own time and one operator, and no generation starves.
 */
TurnPart turn_order_part(const ParkedStep *parked, const TurnClaim *other, Priority top, bool is_awaited) {
    if (!parked && !other)
        return TURN_PART_NONE;
    if (is_awaited && (parked ? parked->rank : other->standing.rank) < top)
        return TURN_PART_NONE;
    return parked && parked->top == PRIORITY_BACKGROUND && !is_awaited ? TURN_PART_SMALL : TURN_PART_EQUAL;
}
