// SPDX-License-Identifier: Apache-2.0
#include "daemon/admission_order.h"

#include <stdlib.h>

#include "base/cleanup.h"

enum {
    RANKS = PRIORITY_INTERACTIVE - PRIORITY_BACKGROUND + 1,
};

Priority admission_rank(const Request *request, uint64_t now_ns) {
    const uint64_t waited_ns = now_ns > request->received_ns ? now_ns - request->received_ns : 0;

    return request_is_generation(request) ? priority_aged(request->job.priority, waited_ns, request->job.ageing_ns)
                                          : PRIORITY_NORMAL;
}

static bool is_interactive(const Request *request) {
    return request->job.priority == PRIORITY_INTERACTIVE;
}

unsigned int admission_at_work(const Admission *admission, const Request *request) {
    const Request *other;
    unsigned int n = 0;

    TAILQ_FOREACH(other, &admission->submitted, queue_link)
    n += other->uid == request->uid && request_is_generation(other) && is_interactive(other) == is_interactive(request);
    return n;
}

/* A user's requests for places of one kind, as far as they were counted. */
typedef struct User {
    uid_t uid;
    bool is_interactive;
    unsigned int n_at_work;
    unsigned int n_waiting[RANKS];
} User;

typedef struct Turn {
    Request *request;
    Priority rank;
    unsigned int turn; /* how many of its user's have a place, or get one before it */
    unsigned int arrival;
} Turn;

/* There are as many connections as there can be users; most services have a few. */
static User *user_of(const Admission *admission, User *users, size_t *n_usersp, const Request *request) {
    User *user = users;

    while (user < users + *n_usersp && (user->uid != request->uid || user->is_interactive != is_interactive(request)))
        user++;
    if (user == users + *n_usersp) {
        *user = (User){ request->uid, is_interactive(request), admission_at_work(admission, request), { 0 } };
        ++*n_usersp;
    }
    return user;
}

static int compare(const void *a, const void *b) {
    const Turn *left = a, *right = b;

    if (left->rank != right->rank)
        return left->rank > right->rank ? -1 : 1;
    if (left->turn != right->turn)
        return left->turn < right->turn ? -1 : 1;
    return left->arrival < right->arrival ? -1 : left->arrival > right->arrival;
}

void admission_number(Admission *admission, uint64_t now_ns) {
    _cleanup_(freep) Turn *turns = calloc(admission->n_waiting + 1, sizeof(*turns));
    _cleanup_(freep) User *users = calloc(admission->n_waiting + 1, sizeof(*users));
    size_t n_users = 0;
    Request *request;
    unsigned int n = 0;

    if (!turns || !users)
        return;
    TAILQ_FOREACH(request, &admission->waiting, queue_link) {
        User *user = user_of(admission, users, &n_users, request);
        const Priority rank = admission_rank(request, now_ns);
        unsigned int *n_waiting = &user->n_waiting[rank - PRIORITY_BACKGROUND];

        turns[n] = (Turn){ request, rank, user->n_at_work + *n_waiting, n };
        ++*n_waiting;
        n++;
    }
    qsort(turns, n, sizeof(*turns), compare);
    for (unsigned int i = 0; i < n; i++)
        turns[i].request->queue_position = i + 1;
}
