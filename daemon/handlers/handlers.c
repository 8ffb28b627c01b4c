// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/handlers/handlers.h"

#include "daemon/handlers/handlers_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request.h"
#include "daemon/requests/request_queue.h"
#include "proto/frame.h"
#include "proto/proto_check.h"

static void handle_hello(Peer *peer, uint64_t request_id, const Coordgen__V1__HelloRequest *hello) {
    static char *features[] = { (char *)"generate",    (char *)"tokenize",      (char *)"models",
                                (char *)"sessions",    (char *)"explain",       (char *)"draft_db",
                                (char *)"model_pairs", (char *)"model_default", (char *)"embed" };
    Coordgen__V1__Response response;
    Coordgen__V1__HelloReply reply = COORDGEN__V1__HELLO_REPLY__INIT;
    ErrText err;

    reply_init(&response, request_id);
    if (proto_version_choose(hello, &reply.version, &err)) {
        connection_fail(peer->connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_VERSION, 0, "%s", err.text);
        return;
    }
    snprintf(peer->name, sizeof(peer->name), "%s", hello->client_name ? hello->client_name : "");
    connection_open(peer->connection);
    reply.has_version = reply.has_frame_max_bytes = reply.has_requests_max = true;
    reply.service_version = (char *)COORDGEN_VERSION;
    reply.frame_max_bytes = peer->connection->input.frame_max_bytes;
    reply.requests_max = peer->service->config->limits.max_requests_per_connection;
    reply.features = features;
    reply.n_features = ARRAY_LEN(features);
    response.op_case = COORDGEN__V1__RESPONSE__OP_HELLO;
    response.hello = &reply;
    connection_send(peer->connection, &response);
    log_debug(TOPIC_DAEMON, "connection %" PRIu64 ": hello of '%s', uid %u, pid %d", peer->connection->serial,
              peer->name, (unsigned int)peer->user->uid, (int)peer->pid);
}

static void handle_cancel(Peer *peer, uint64_t request_id, const Coordgen__V1__CancelRequest *cancel) {
    Coordgen__V1__Response response;
    Coordgen__V1__CancelReply reply = COORDGEN__V1__CANCEL_REPLY__INIT;
    Request *target = request_find(peer, cancel->target_request_id);

    if (!target) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_NOT_FOUND, 0,
                              "cancel.target_request_id", "no request %" PRIu64 " is in flight on this connection",
                              cancel->target_request_id);
        return;
    }
    reply_init(&response, request_id);
    response.op_case = COORDGEN__V1__RESPONSE__OP_CANCEL;
    response.cancel = &reply;
    connection_send(peer->connection, &response);
    request_cancel(target);
}

/* Order of messages: Hello first and once, every id used once at a time. Return: whether the message may be served. */
static bool in_order(Peer *peer, const Coordgen__V1__Request *message) {
    bool is_hello = message->op_case == COORDGEN__V1__REQUEST__OP_HELLO;

    if (is_hello == (peer->connection->state == CONNECTION_HELLO) && !request_find(peer, message->request_id) &&
        !handler_has_draft_call(peer, message->request_id))
        return true;
    if (!is_hello && peer->connection->state == CONNECTION_HELLO)
        connection_fail(peer->connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0,
                        "the first message must be a Hello");
    else if (is_hello && peer->connection->state != CONNECTION_HELLO)
        connection_fail(peer->connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0,
                        "a second Hello: it opens a connection and comes once");
    else
        connection_fail(peer->connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0,
                        "request_id %" PRIu64 " is in flight already: choose another one", message->request_id);
    return false;
}

/* A decoded message of len_bytes; requests that take time keep it. */
static void serve(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes) {
    const Coordgen__V1__Request *message = *messagep;
    FrameFault fault;
    int r;

    r = proto_check_request(message, &fault);
    if (r == PROTO_CHECK_E_ENVELOPE) {
        connection_fail(peer->connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0, "%s", fault.err.text);
        return;
    }
    if (!in_order(peer, message))
        return;
    if (r) {
        if (peer->connection->state == CONNECTION_HELLO)
            connection_fail(peer->connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0, "%s",
                            fault.err.text);
        else
            connection_send_error(peer->connection, message->request_id,
                                  COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0, fault.field, "%s",
                                  fault.err.text);
        return;
    }
    switch (message->op_case) {
    case COORDGEN__V1__REQUEST__OP_HELLO:
        handle_hello(peer, message->request_id, message->hello);
        return;
    case COORDGEN__V1__REQUEST__OP_GENERATE:
        handle_generate(peer, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_CANCEL:
        handle_cancel(peer, message->request_id, message->cancel);
        return;
    case COORDGEN__V1__REQUEST__OP_TOKENIZE:
        handle_tokenize(peer, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_DETOKENIZE:
        handle_detokenize(peer, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_EMBED:
        handle_embed(peer, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_STATUS:
        handle_status(peer, message->request_id);
        return;
    case COORDGEN__V1__REQUEST__OP_REQUEST_LIST:
        handle_request_list(peer, message->request_id);
        return;
    case COORDGEN__V1__REQUEST__OP_EXPLAIN:
        handle_explain(peer, message->request_id, message->explain);
        return;
    case COORDGEN__V1__REQUEST__OP_REQUEST_CANCEL:
        handle_request_cancel(peer, message->request_id, message->request_cancel);
        return;
    case COORDGEN__V1__REQUEST__OP_SESSION_OPEN:
        handle_session_open(peer, message->request_id, message->session_open);
        return;
    case COORDGEN__V1__REQUEST__OP_SESSION_FORK:
        handle_session_fork(peer, message->request_id, message->session_fork);
        return;
    case COORDGEN__V1__REQUEST__OP_SESSION_CLOSE:
        handle_session_close(peer, message->request_id, message->session_close);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_LIST:
        handle_model_list(peer, message->request_id);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_SHOW:
        handle_model_show(peer, message->request_id, message->model_show->model);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_LOAD:
        handle_model_load(peer, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_UNLOAD:
        handle_model_unload(peer, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_REMOVE:
        handle_model_remove(peer, message->request_id, message->model_remove);
        return;
    case COORDGEN__V1__REQUEST__OP_DISK:
        handle_disk(peer, message->request_id);
        return;
    case COORDGEN__V1__REQUEST__OP_PRUNE:
        handle_prune(peer, message->request_id, message->prune);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_PAIR:
        handle_model_pair(peer, message->request_id, message->model_pair);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_DEFAULT:
        handle_model_default(peer, message->request_id, message->model_default);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_PAIR_LIST:
        handle_model_pair_list(peer, message->request_id);
        return;
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_STATS:
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_FORGET:
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_FREEZE:
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_EXPORT:
    case COORDGEN__V1__REQUEST__OP_DRAFT_DB_IMPORT:
        handle_draft_db(peer, message);
        return;
    default:
        connection_fail(peer->connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0,
                        "the request names no operation");
    }
}

/* ---- a connection's owner ---------------------------------------------------------------------------------------- */

static uint32_t retry_ms(void *arg) {
    const Peer *peer = arg;

    return admission_retry_ms(&peer->service->requests.admission);
}

static void take_frame(Peer *peer, const uint8_t *body, size_t len_bytes) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *message = NULL;
    Connection *connection = peer->connection;
    Bill decode_bill = { 0 };
    FrameFault fault;
    int r;

    if (user_charge(peer->user, peer->is_admin, &decode_bill, frame_decode_budget_bytes(len_bytes))) {
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, retry_ms(peer),
                        "no memory for a message of %zu bytes: %s is reached", len_bytes,
                        user_memory_limit(peer->user, peer->is_admin));
        return;
    }
    r = frame_decode_request(body, len_bytes, &message, &fault);
    bill_settle(&decode_bill);
    if (r < 0)
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, retry_ms(peer), "out of memory");
    else if (r && (frame_e_is_fatal(r) || connection->state == CONNECTION_HELLO || !fault.request_id ||
                   request_find(peer, fault.request_id)))
        connection_fail(connection, frame_error_code(r), 0, "%s", fault.err.text);
    else if (r)
        connection_send_error(connection, fault.request_id, frame_error_code(r), 0, fault.field, "%s", fault.err.text);
    else
        serve(peer, &message, len_bytes);
}

static void on_frame(void *arg, const uint8_t *body, size_t len_bytes) {
    Peer *peer = arg;

    assert_on_loop(&peer->service->loop);
    take_frame(peer, body, len_bytes);
    if (!peer->connection->turn.waits)
        peer->awaited_scan = 0;
}

static void on_choke(void *arg, bool choked) {
    Peer *peer = arg;
    Request *request;

    TAILQ_FOREACH (request, &peer->requests, peer_link)
        request_queue_pause(request, choked);
    if (!choked)
        loop_pump(&peer->service->loop);
}

static void on_end(void *arg) {
    Peer *peer = arg;
    Request *request;
    Session *session;

    while ((request = TAILQ_FIRST(&peer->requests)))
        request_abandon(request);
    while ((session = TAILQ_FIRST(&peer->sessions)))
        session_close(session);
    handler_end_draft_calls(peer);
}

static void on_closed(void *arg) {
    peer_free(arg);
}

const ConnectionOps handlers_ops = {
    .on_frame = on_frame,
    .on_choke = on_choke,
    .on_end = on_end,
    .on_closed = on_closed,
    .retry_ms = retry_ms,
};
