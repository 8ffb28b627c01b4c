// SPDX-License-Identifier: Apache-2.0
#include "scheduler/requests/priority.h"

const char *priority_name(Priority priority) {
    return priority > PRIORITY_NORMAL ? "interactive" : priority < PRIORITY_NORMAL ? "background" : "normal";
}

/**
 * priority_aged() - the class that a request counts as after it has waited
 * @ageing_ns: 0: waiting changes nothing
 *
 * A background request waits at most two ageing times longer than an interactive one that came at the same moment: from
 * then on the background request counts as interactive, and goes before all that came later.
 */
Priority priority_aged(Priority priority, uint64_t waited_ns, uint64_t ageing_ns) {
    const uint64_t missing = (uint64_t)(PRIORITY_INTERACTIVE - priority),
                   gained = ageing_ns ? waited_ns / ageing_ns : 0;

    return gained < missing ? (Priority)(priority + (int)gained) : PRIORITY_INTERACTIVE;
}
