// SPDX-License-Identifier: Apache-2.0
/* What generations are at, and what drafts have brought them: those of the asking user, for administrators all. */
#include <inttypes.h>

#include "base/log.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/net/reply.h"
#include "daemon/requests/explanation.h"
#include "daemon/requests/request.h"

enum {
    LISTED_MAX = 256,    /* so that the reply stays far below a frame, and below most output buffers */
    REQUESTS_A_UNIT = 8, /* of connection_spend(): so many are looked at */
};

typedef struct Listed {
    Explanation explanation;
    ExplanationMessage message;
} Listed;

/* The next one behind `at` (NULL: the first) that the client may see: administrators go through the lists of all, those
 * with the engine thread first, others through their user's. */
static Request *next_request(const Peer *peer, const Request *at) {
    const Admission *admission = &peer->service->requests.admission;
    Request *next;

    do {
        if (!peer->may_administer)
            next = at ? TAILQ_NEXT(at, user_link) : TAILQ_FIRST(&peer->user->requests);
        else if (!at)
            next = TAILQ_FIRST(&admission->submitted) ? TAILQ_FIRST(&admission->submitted)
                                                      : TAILQ_FIRST(&admission->waiting);
        else
            next = TAILQ_NEXT(at, queue_link) ? TAILQ_NEXT(at, queue_link)
                   : request_is_submitted(at) ? TAILQ_FIRST(&admission->waiting)
                                              : NULL;
        at = next;
    } while (next && (!request_is_generation(next) || !next->peer));
    return next;
}

void handle_request_list(Peer *peer, uint64_t request_id) {
    Coordgen__V1__RequestListReply reply = COORDGEN__V1__REQUEST_LIST_REPLY__INIT;
    Coordgen__V1__RequestInfo *list[LISTED_MAX];
    _cleanup_(freep) Listed *listed = NULL;
    Coordgen__V1__Response response;
    const Request *request;
    size_t n_all = 0, n = 0;

    for (request = next_request(peer, NULL); request; request = next_request(peer, request))
        n_all++;
    connection_spend(peer->connection, n_all / REQUESTS_A_UNIT);
    listed = calloc(n_all < LISTED_MAX ? n_all + 1 : LISTED_MAX, sizeof(*listed));
    if (!listed) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL, 0, "",
                              "out of memory");
        return;
    }
    for (request = next_request(peer, NULL); request && n < LISTED_MAX; request = next_request(peer, request)) {
        explanation_of(&listed[n].explanation, request, NULL);
        explanation_message(&listed[n].message, &listed[n].explanation, false);
        list[n] = &listed[n].message.info;
        n++;
    }
    reply_init(&response, request_id);
    reply.n_requests = n;
    reply.requests = list;
    reply.has_more = true;
    reply.more = (uint32_t)(n_all - n);
    response.op_case = COORDGEN__V1__RESPONSE__OP_REQUEST_LIST;
    response.request_list = &reply;
    connection_send(peer->connection, &response);
}

/* Finds a generation that runs or waits; NULL: there is none that this client may see. */
static Request *find_request(const Peer *peer, uint64_t number) {
    Request *request = next_request(peer, NULL);

    while (request && request->serial != number)
        request = next_request(peer, request);
    return request;
}

void handle_request_cancel(Peer *peer, uint64_t request_id, const Coordgen__V1__RequestCancelRequest *cancel) {
    Coordgen__V1__RequestCancelReply reply = COORDGEN__V1__REQUEST_CANCEL_REPLY__INIT;
    Request *target = find_request(peer, cancel->number);
    Coordgen__V1__Response response;

    connection_spend(peer->connection, EXPLANATIONS_A_USER / REQUESTS_A_UNIT);
    if (!target) {
        connection_send_error(
            peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_NOT_FOUND, 0, "request_cancel.number",
            "request_cancel.number: no generation %" PRIu64 " of this user runs or waits: coordgenctl "
            "top shows those that do",
            cancel->number);
        return;
    }
    if (peer->user->uid != target->user->uid)
        log_notice_of(peer->user->uid, TOPIC_DAEMON,
                      "request %" PRIu64 " of uid %u is cancelled by uid %u, an administrator", cancel->number,
                      (unsigned int)target->user->uid, (unsigned int)peer->user->uid);
    reply_init(&response, request_id);
    response.op_case = COORDGEN__V1__RESPONSE__OP_REQUEST_CANCEL;
    response.request_cancel = &reply;
    connection_send(peer->connection, &response);
    request_cancel(target);
}

/* Explains a generation that runs or waits, or a kept one. false: there is none that this client may see. */
static bool find(const Peer *peer, uint64_t number, Explanation *explanation) {
    const Explanation *kept =
        explanation_find(&peer->service->requests.explanations, number, peer->may_administer ? NULL : &peer->user->uid);
    const Request *request;

    if (kept) {
        *explanation = *kept;
        return true;
    }
    request = find_request(peer, number);
    if (request)
        explanation_of(explanation, request, NULL);
    return request;
}

void handle_explain(Peer *peer, uint64_t request_id, const Coordgen__V1__ExplainRequest *explain) {
    Coordgen__V1__ExplainReply reply = COORDGEN__V1__EXPLAIN_REPLY__INIT;
    Coordgen__V1__Response response;
    ExplanationMessage message;
    Explanation explanation;

    connection_spend(peer->connection, EXPLANATIONS_A_USER / REQUESTS_A_UNIT);
    if (!find(peer, explain->number, &explanation)) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_NOT_FOUND, 0,
                              "explain.number",
                              "explain.number: no generation %" PRIu64 " of this user runs or is among its last %d: "
                              "their numbers are in the usage of replies",
                              explain->number, EXPLANATIONS_A_USER);
        return;
    }
    explanation_message(&message, &explanation, true);
    reply_init(&response, request_id);
    reply.request = &message.info;
    response.op_case = COORDGEN__V1__RESPONSE__OP_EXPLAIN;
    response.explain = &reply;
    connection_send(peer->connection, &response);
}
