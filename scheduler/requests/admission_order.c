// SPDX-License-Identifier: Apache-2.0
#include "scheduler/requests/admission_order.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define TURN_NS (UINT64_C(1000) * 1000 * 1000) /* a user has a place for so long while another one waits for it */

enum {
    RANKS = PRIORITY_INTERACTIVE - PRIORITY_BACKGROUND + 1,
};

/**
 * admission_order_goes_first() - whether a claim gets a place before another one
 *
 * Compares the rank, then the number of places that the user has, then the time that the user was served, then the
 * arrival. A background request that has waited for twice the ageing time so goes before everything of its user that
 * came later, and an app that asks for much waits for itself.
 */
bool admission_order_goes_first(const AdmissionClaim *claim, const AdmissionClaim *other) {
    if (claim->user == other->user && claim->priority == other->priority)
        return claim->serial < other->serial; /* also before one that has begun to rest later */
    if (claim->rank != other->rank)
        return claim->rank > other->rank;
    if (claim->user != other->user && claim->n_taken != other->n_taken)
        return claim->n_taken < other->n_taken;
    if (claim->user != other->user && claim->served_ns != other->served_ns)
        return claim->served_ns < other->served_ns;
    return claim->serial < other->serial;
}

/* A background generation gives its place up at once for a normal request, whoever's. A generation that has rested, and
 * has a place again by what waiting has added to its class, keeps that for a turn first. */
static bool stands_aside(const AdmissionClaim *claim, const AdmissionClaim *to, uint64_t now_ns) {
    return to->priority > claim->priority && (!claim->has_rested || now_ns >= claim->placed_ns + TURN_NS);
}

/**
 * admission_order_must_yield() - whether a request gives its place up for another one
 *
 * A lower class stands aside, also for a request of the same user. For another user's request of its class a request
 * yields at once if its user has two places more than the other one, which so gets its share. Otherwise the request
 * yields when it has had the place for a turn, and its user has been served more, or waiting has raised the other
 * request above it.
 */
bool admission_order_must_yield(const AdmissionClaim *claim, const AdmissionClaim *to, uint64_t now_ns) {
    if (!claim->has_place || claim->kind != to->kind || to->rank < claim->priority)
        return false;
    if (stands_aside(claim, to, now_ns))
        return true;
    if (claim->user == to->user)
        return false;
    if (claim->n_running > to->n_taken + 1)
        return true;
    if (now_ns < claim->placed_ns + TURN_NS)
        return false;
    return to->rank > claim->priority || (claim->n_running > to->n_taken && claim->served_ns > to->served_ns);
}

/* Compares the number of places that the user has, then the class from the lowest on, then the arrival from the latest
 * on. */
bool admission_order_yields_first(const AdmissionClaim *claim, const AdmissionClaim *other) {
    if (claim->n_running != other->n_running)
        return claim->n_running > other->n_running;
    if (claim->priority != other->priority)
        return claim->priority < other->priority;
    return claim->serial > other->serial;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* A user's claims to places of one kind, as far as they were counted. */
typedef struct Share {
    const void *user;
    unsigned int kind;
    unsigned int n_waiting[RANKS];
} Share;

typedef struct Turn {
    AdmissionClaim *claim;
    unsigned int turn; /* how many of the user's requests have a place, or get one before this one */
} Turn;

static Share *share_of(Share *shares, size_t *n_sharesp, const AdmissionClaim *claim) {
    Share *share = shares;

    while (share < shares + *n_sharesp && (share->user != claim->user || share->kind != claim->kind))
        share++;
    if (share == shares + *n_sharesp) {
        *share = (Share){ .user = claim->user, .kind = claim->kind };
        ++*n_sharesp;
    }
    return share;
}

static int turns_compare(const void *a, const void *b) {
    const Turn *left = a, *right = b;

    if (left->claim->rank != right->claim->rank)
        return left->claim->rank > right->claim->rank ? -1 : 1;
    if (left->turn != right->turn)
        return left->turn < right->turn ? -1 : 1;
    return left->claim < right->claim ? -1 : left->claim > right->claim;
}

/* There can be as many shares as claims; most services have a few. */
int admission_order_number(AdmissionClaim *claims, size_t n) {
    _cleanup_(freep) Turn *turns = calloc(n + 1, sizeof(*turns));
    _cleanup_(freep) Share *shares = calloc(n + 1, sizeof(*shares));
    size_t n_shares = 0;

    if (!turns || !shares)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        unsigned int *n_of_rank =
            &share_of(shares, &n_shares, &claims[i])->n_waiting[claims[i].rank - PRIORITY_BACKGROUND];

        turns[i] = (Turn){ &claims[i], claims[i].n_taken + *n_of_rank };
        ++*n_of_rank;
    }
    qsort(turns, n, sizeof(*turns), turns_compare);
    for (size_t i = 0; i < n; i++)
        turns[i].claim->position = (uint32_t)i + 1;
    return 0;
}
