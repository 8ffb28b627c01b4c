// SPDX-License-Identifier: Apache-2.0
/* Sessions: opened, forked and closed at once; what the engine thread holds for them follows. */
#include <inttypes.h>
#include <string.h>

#include "daemon/handlers/handlers_list.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request.h"
#include "daemon/requests/session.h"
#include "proto/proto_check.h"

/* An empty session, or NULL and the error is sent. */
static Session *new_session(Peer *peer, uint64_t request_id, const char *model_name) {
    Service *service = peer->service;
    Session *session = NULL;

    if (service->draining) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN,
                              service->config->timeouts.drain_ms, "", "the service is shutting down");
        return NULL;
    }
    if (peer->user->n_sessions >= service->config->limits.max_sessions_per_uid) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED, 0, "",
                              "this user has %" PRIu32 " sessions (max-sessions-per-uid): close some",
                              service->config->limits.max_sessions_per_uid);
        return NULL;
    }
    if (session_new(&session, &service->sessions, peer, model_name))
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                              admission_retry_ms(&service->requests.admission), "",
                              "no memory for a session: %s is reached", user_memory_limit(peer->user, peer->is_admin));
    return session;
}

/* No room for its texts: it is gone again. */
static void refuse_texts(Session *session, Peer *peer, uint64_t request_id) {
    session_close(session);
    connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                          admission_retry_ms(&peer->service->requests.admission), "",
                          "no memory for the texts of a session: %s is reached",
                          user_memory_limit(peer->user, peer->is_admin));
}

void handle_session_open(Peer *peer, uint64_t request_id, const Coordgen__V1__SessionOpenRequest *open) {
    _cleanup_(freep) ChatMessage *messages = NULL;
    Coordgen__V1__SessionOpenReply reply = COORDGEN__V1__SESSION_OPEN_REPLY__INIT;
    Coordgen__V1__Response response;
    const bool is_chat = open->input_case == COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_MESSAGES,
               is_raw = open->input_case == COORDGEN__V1__SESSION_OPEN_REQUEST__INPUT_PROMPT;
    Model *model = handler_find_model(peer, request_id, open->model, "session_open.model");
    Session *session;
    int r = 0;

    if (!model ||
        (is_chat &&
         !handler_text_fits(peer, request_id, handler_messages_bytes(open->messages), "session_open.messages")) ||
        (is_raw && !handler_text_fits(peer, request_id, strlen(open->prompt), "session_open.prompt")))
        return;
    /* Its requests will want it; the session itself does not wait. */
    if (!handler_demand_model(peer, request_id, model, open->model))
        return;
    session = new_session(peer, request_id, model->name);
    if (!session)
        return;
    if (is_chat) {
        messages = handler_messages(open->messages, NULL, 0);
        r = messages ? session_add_messages(session, messages, open->messages->n_message) : -ENOMEM;
    } else if (is_raw) {
        r = session_add_text(session, open->prompt, strlen(open->prompt));
    }
    if (r) {
        refuse_texts(session, peer, request_id);
        return;
    }
    reply_init(&response, request_id);
    reply.has_session = true;
    reply.session = session->id;
    reply.model = session->model_name;
    response.op_case = COORDGEN__V1__RESPONSE__OP_SESSION_OPEN;
    response.session_open = &reply;
    connection_send(peer->connection, &response);
}

Session *handler_find_session(Peer *peer, uint64_t request_id, uint64_t id, const char *field) {
    Session *session = session_find(peer, id);

    if (!session)
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_NOT_FOUND, 0, field,
                              "there is no session %" PRIu64
                              " on this connection: sessions end with the connection that opened "
                              "them",
                              id);
    return session;
}

/* What the fork begins with. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
static int copy_texts(Session *session, const Session *from, size_t n_messages) {
    if (from->input == SESSION_RAW)
        return session_add_text(session, from->text.data ? from->text.data : "", from->text.len_bytes);
    return n_messages ? session_add_messages(session, from->messages, n_messages) : 0;
}

void handle_session_fork(Peer *peer, uint64_t request_id, const Coordgen__V1__SessionForkRequest *fork) {
    Coordgen__V1__SessionForkReply reply = COORDGEN__V1__SESSION_FORK_REPLY__INIT;
    Coordgen__V1__Response response;
    Session *from = handler_find_session(peer, request_id, fork->session, "session_fork.session"), *session;

    if (!from)
        return;
    if (fork->has_keep_messages && (from->input == SESSION_RAW || fork->keep_messages > from->n_messages)) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              "session_fork.keep_messages",
                              from->input == SESSION_RAW ? "session_fork.keep_messages: session %" PRIu64
                                                           " holds a raw text, not messages (%zu)"
                                                         : "session_fork.keep_messages: session %" PRIu64
                                                           " has %zu messages",
                              from->id, from->n_messages);
        return;
    }
    session = new_session(peer, request_id, from->model_name);
    if (!session)
        return;
    connection_spend(peer->connection, session_work(from));
    if (copy_texts(session, from, fork->has_keep_messages ? fork->keep_messages : from->n_messages)) {
        refuse_texts(session, peer, request_id);
        return;
    }
    session_fork_pin(session, from);
    reply_init(&response, request_id);
    reply.has_session = true;
    reply.session = session->id;
    response.op_case = COORDGEN__V1__RESPONSE__OP_SESSION_FORK;
    response.session_fork = &reply;
    connection_send(peer->connection, &response);
}

void handle_session_close(Peer *peer, uint64_t request_id, const Coordgen__V1__SessionCloseRequest *close) {
    Coordgen__V1__SessionCloseReply reply = COORDGEN__V1__SESSION_CLOSE_REPLY__INIT;
    Coordgen__V1__Response response;
    Session *session = handler_find_session(peer, request_id, close->session, "session_close.session");
    Request *answering;

    if (!session)
        return;
    reply_init(&response, request_id);
    response.op_case = COORDGEN__V1__RESPONSE__OP_SESSION_CLOSE;
    response.session_close = &reply;
    connection_send(peer->connection, &response);
    answering = session->request;
    session_close(session);
    if (answering)
        request_cancel(answering);
}
