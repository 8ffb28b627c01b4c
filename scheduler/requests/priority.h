// SPDX-License-Identifier: Apache-2.0
/* Classes of requests. The higher class goes first, and waiting raises a request's class, so that nobody waits for
 * ever. */
#ifndef COORDGEN_SCHEDULER_PRIORITY_H
#define COORDGEN_SCHEDULER_PRIORITY_H

#include <stdint.h>

typedef enum Priority { /* the greater goes first */
    PRIORITY_BACKGROUND = -1,
    PRIORITY_NORMAL = 0, /* of requests that name no class */
    PRIORITY_INTERACTIVE = 1,
} Priority;

/* A generation's place among others. */
typedef struct Standing {
    Priority priority; /* its class */
    Priority rank;     /* the class that it counts as after waiting: not below its own */
} Standing;

const char *priority_name(Priority priority); /* "interactive", ... */
/* Returns the class that a request counts as after so much waiting: one higher for every ageing_ns (0: never). */
Priority priority_aged(Priority priority, uint64_t waited_ns, uint64_t ageing_ns);

#endif
