// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/handlers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "daemon/reply.h"
#include "daemon/request.h"
#include "proto/proto_check.h"

static void handle_hello(Connection *connection, uint64_t request_id, const Coordgen__V1__HelloRequest *hello) {
    static char *features[] = { (char *)"generate", (char *)"tokenize", (char *)"models", (char *)"sessions" };
    Coordgen__V1__Response response;
    Coordgen__V1__HelloReply reply = COORDGEN__V1__HELLO_REPLY__INIT;
    ErrText err;

    reply_init(&response, request_id);
    if (proto_version_choose(hello, &reply.version, &err)) {
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_VERSION, 0, "%s", err.text);
        return;
    }
    snprintf(connection->client_name, sizeof(connection->client_name), "%s",
             hello->client_name ? hello->client_name : "");
    connection->state = CONNECTION_OPEN;
    evtimer_del(connection->hello_timer);
    reply.has_version = reply.has_frame_max_bytes = reply.has_requests_max = true;
    reply.service_version = (char *)COORDGEN_VERSION;
    reply.frame_max_bytes = connection->frame_max_bytes;
    reply.requests_max = connection->server->config->max_requests_per_connection;
    reply.features = features;
    reply.n_features = ARRAY_LEN(features);
    response.op_case = COORDGEN__V1__RESPONSE__OP_HELLO;
    response.hello = &reply;
    connection_send(connection, &response);
    log_debug(TOPIC_DAEMON, "connection %" PRIu64 ": hello of '%s', uid %u, pid %d", connection->serial,
              connection->client_name, (unsigned int)connection->uid, (int)connection->pid);
}

static void handle_cancel(Connection *connection, uint64_t request_id, const Coordgen__V1__CancelRequest *cancel) {
    Coordgen__V1__Response response;
    Coordgen__V1__CancelReply reply = COORDGEN__V1__CANCEL_REPLY__INIT;
    Request *target = request_find(connection, cancel->target_request_id);

    if (!target) {
        reply_error(connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_NOT_FOUND, 0,
                    "cancel.target_request_id", "no request %" PRIu64 " is in flight on this connection",
                    cancel->target_request_id);
        return;
    }
    reply_init(&response, request_id);
    response.op_case = COORDGEN__V1__RESPONSE__OP_CANCEL;
    response.cancel = &reply;
    connection_send(connection, &response);
    request_cancel(target);
}

/* Order of messages: Hello first and once, every id used once at a time. Return: whether the message may be served. */
static bool in_order(Connection *connection, const Coordgen__V1__Request *message) {
    bool is_hello = message->op_case == COORDGEN__V1__REQUEST__OP_HELLO;

    if (is_hello == (connection->state == CONNECTION_HELLO) && !request_find(connection, message->request_id))
        return true;
    if (!is_hello && connection->state == CONNECTION_HELLO)
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0,
                        "the first message must be a Hello");
    else if (is_hello && connection->state != CONNECTION_HELLO)
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0,
                        "a second Hello: it opens a connection and comes once");
    else
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0,
                        "request_id %" PRIu64 " is in flight already: choose another one", message->request_id);
    return false;
}

void handlers_serve(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes) {
    const Coordgen__V1__Request *message = *messagep;
    FrameFault fault;
    int r;

    assert_on_loop(&connection->server->loop);
    r = proto_check_request(message, &fault);
    if (r == PROTO_CHECK_E_ENVELOPE) {
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0, "%s", fault.err.text);
        return;
    }
    if (!in_order(connection, message))
        return;
    if (r) {
        if (connection->state == CONNECTION_HELLO)
            connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0, "%s", fault.err.text);
        else
            reply_error(connection, message->request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                        fault.field, "%s", fault.err.text);
        return;
    }
    switch (message->op_case) {
    case COORDGEN__V1__REQUEST__OP_HELLO:
        handle_hello(connection, message->request_id, message->hello);
        return;
    case COORDGEN__V1__REQUEST__OP_GENERATE:
        handle_generate(connection, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_CANCEL:
        handle_cancel(connection, message->request_id, message->cancel);
        return;
    case COORDGEN__V1__REQUEST__OP_TOKENIZE:
        handle_tokenize(connection, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_DETOKENIZE:
        handle_detokenize(connection, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_STATUS:
        handle_status(connection, message->request_id);
        return;
    case COORDGEN__V1__REQUEST__OP_SESSION_OPEN:
        handle_session_open(connection, message->request_id, message->session_open);
        return;
    case COORDGEN__V1__REQUEST__OP_SESSION_FORK:
        handle_session_fork(connection, message->request_id, message->session_fork);
        return;
    case COORDGEN__V1__REQUEST__OP_SESSION_CLOSE:
        handle_session_close(connection, message->request_id, message->session_close);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_LIST:
        handle_model_list(connection, message->request_id);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_SHOW:
        handle_model_show(connection, message->request_id, message->model_show->model);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_LOAD:
        handle_model_load(connection, messagep, len_bytes);
        return;
    case COORDGEN__V1__REQUEST__OP_MODEL_UNLOAD:
        handle_model_unload(connection, messagep, len_bytes);
        return;
    default:
        connection_fail(connection, COORDGEN__V1__ERROR_CODE__ERROR_CODE_PROTOCOL, 0, "the request names no operation");
    }
}
