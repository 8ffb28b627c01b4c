// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/admission_order.h"

#include <stdlib.h>

#include "base/cleanup.h"

enum {
    RANKS = PRIORITY_INTERACTIVE - PRIORITY_BACKGROUND + 1,
};

PlaceKind admission_kind(const Request *request) {
    return request->job.priority == PRIORITY_INTERACTIVE ? PLACE_INTERACTIVE : PLACE_OTHER;
}

Priority admission_rank(const Request *request, uint64_t now_ns) {
    const uint64_t since_ns = request_is_resting(request) ? request->rested_ns : request->received_ns,
                   waited_ns = now_ns > since_ns ? now_ns - since_ns : 0;

    return request_is_generation(request) ? priority_aged(request->job.priority, waited_ns, request->job.ageing_ns)
                                          : PRIORITY_NORMAL;
}

/* A user's requests for places of one kind, as far as they were counted. */
typedef struct Share {
    const User *user;
    PlaceKind kind;
    unsigned int n_waiting[RANKS];
} Share;

typedef struct Turn {
    Request *request;
    Priority rank;
    unsigned int turn; /* how many of its user's have a place, or get one before it */
    unsigned int arrival;
} Turn;

/* There are as many connections as there can be users; most services have a few. */
static Share *share_of(Share *shares, size_t *n_sharesp, const Request *request) {
    Share *share = shares;

    while (share < shares + *n_sharesp && (share->user != request->user || share->kind != admission_kind(request)))
        share++;
    if (share == shares + *n_sharesp) {
        *share = (Share){ request->user, admission_kind(request), { 0 } };
        ++*n_sharesp;
    }
    return share;
}

static int turns_compare(const void *a, const void *b) {
    const Turn *left = a, *right = b;

    if (left->rank != right->rank)
        return left->rank > right->rank ? -1 : 1;
    if (left->turn != right->turn)
        return left->turn < right->turn ? -1 : 1;
    return left->arrival < right->arrival ? -1 : left->arrival > right->arrival;
}

void admission_number(const RequestList *waiting, unsigned int n_waiting, uint64_t now_ns) {
    _cleanup_(freep) Turn *turns = calloc(n_waiting + 1, sizeof(*turns));
    _cleanup_(freep) Share *shares = calloc(n_waiting + 1, sizeof(*shares));
    size_t n_shares = 0;
    Request *request;
    unsigned int n = 0;

    if (!turns || !shares)
        return;
    TAILQ_FOREACH(request, waiting, queue_link) {
        Share *share = share_of(shares, &n_shares, request);
        const Priority rank = admission_rank(request, now_ns);
        unsigned int *n_of_rank = &share->n_waiting[rank - PRIORITY_BACKGROUND];

        turns[n] =
            (Turn){ request, rank,
                    share->user->places[share->kind].n_active - share->user->places[share->kind].n_resting + *n_of_rank,
                    n };
        ++*n_of_rank;
        n++;
    }
    qsort(turns, n, sizeof(*turns), turns_compare);
    for (unsigned int i = 0; i < n; i++)
        turns[i].request->queue_position = i + 1;
}
