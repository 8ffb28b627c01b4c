// SPDX-License-Identifier: Apache-2.0
/* Classes of requests: who goes first, and what waiting makes of a class, so that nobody waits for ever. */
#ifndef COORDGEN_SCHEDULER_PRIORITY_H
#define COORDGEN_SCHEDULER_PRIORITY_H

#include <stdint.h>

typedef enum Priority { /* the greater goes first */
    PRIORITY_BACKGROUND = -1,
    PRIORITY_NORMAL = 0, /* of what says nothing */
    PRIORITY_INTERACTIVE = 1,
} Priority;

const char *priority_name(Priority priority); /* "interactive", ... */
/* The class that a request counts as after it has waited for so long: one more for every ageing_ns (0: never). */
Priority priority_aged(Priority priority, uint64_t waited_ns, uint64_t ageing_ns);

#endif
