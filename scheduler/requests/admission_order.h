// SPDX-License-Identifier: Apache-2.0
/* The order of requests that wait for a place at the engine: the highest class first, with what waiting has added to
 * it; in a class the user with fewer places, so that users take turns however many requests each has. Decides over
 * claims that it is given, and knows no request. */
#ifndef COORDGEN_SCHEDULER_ADMISSION_ORDER_H
#define COORDGEN_SCHEDULER_ADMISSION_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/requests/priority.h"

/* A request that waits for a place or has one. Counts and times of its user are those of its kind of place. */
typedef struct AdmissionClaim {
    const void *user;       /* compared, never read */
    unsigned int kind;      /* of place: claims to different kinds do not compete */
    Priority priority;      /* the request's own class */
    Priority rank;          /* the class that it counts as after waiting */
    uint64_t serial;        /* rises with the arrival */
    unsigned int n_taken;   /* places that the user has, used or not */
    unsigned int n_running; /* of them, used */
    uint64_t served_ns;     /* places times time that the user has had */
    bool has_place;         /* the request has one that it can give up */
    bool has_rested;        /* the request has given a place up before */
    uint64_t placed_ns;     /* since when it has had its place */
    uint32_t position;      /* out, of admission_order_number(): 1 is the next */
} AdmissionClaim;

/* Whether a claim gets a place before another one. */
bool admission_order_goes_first(const AdmissionClaim *claim, const AdmissionClaim *other);
/* Whether a request gives its place up for another one of its own or a higher class. */
bool admission_order_must_yield(const AdmissionClaim *claim, const AdmissionClaim *to, uint64_t now_ns);
/* Whether a request gives its place up rather than another one, where both must. */
bool admission_order_yields_first(const AdmissionClaim *claim, const AdmissionClaim *other);
/* Numbers n claims, which are in the order of their arrival. 0, or -ENOMEM: positions stay as they were. */
int admission_order_number(AdmissionClaim *claims, size_t n);

#endif
