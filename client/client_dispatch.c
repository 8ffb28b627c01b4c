// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "client/client_reply.h"
#include "client/sampling/client_sampling.h"

enum {
    READ_BYTES = 64 << 10,
    READS_MAX = 64, /* per dispatch, so that other sources of the caller's loop get their turn */
};

static void event_send(CoordgenClient *client, ClientRequest *request, CoordgenEvent *event) {
    event->request_id = request->id;
    if (request->fn && request->fn(request->arg, event) && event->kind != COORDGEN_EVENT_END)
        (void)coordgen_cancel(client, request->id);
}

/* Ends a request: unlinks it, tells the user, frees it. failure: NULL if *responsep ends the request, which takes the
 * response over. */
static int request_end(CoordgenClient *client, ClientRequest *request, const ClientFailure *failure,
                       Coordgen__V1__Response **responsep) {
    CoordgenEvent event = { .struct_bytes = sizeof(event), .kind = COORDGEN_EVENT_END };
    _cleanup_(coordgen_reply_unrefp) CoordgenReply *reply = NULL;

    client_table_unlink(client, request);
    if (request->kind >= REQUEST_GENERATE) {
        reply = client_reply_new(request->kind, failure, responsep, &request->answer, &request->choices);
        event.reply = reply;
        /* Without memory for a reply, the user still learns of the end: a NULL reply means COORDGEN_E_NO_MEMORY. */
        event_send(client, request, &event);
    }
    client_request_free(request);
    return 0;
}

int client_connection_fail(CoordgenClient *client, const ClientFailure *failure) {
    ClientFailure copy = *failure;

    client_connection_close(client);
    for (;;) {
        ClientRequest *request;

        pthread_mutex_lock(&client->lock);
        request = client->requests;
        pthread_mutex_unlock(&client->lock);
        if (!request)
            break;
        request_end(client, request, &copy, NULL);
    }
    client->failure = copy;
    return copy.code;
}

static int connection_failf(CoordgenClient *client, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int connection_failf(CoordgenClient *client, int code, const char *format, ...) {
    ClientFailure failure = { .code = code };
    va_list args;

    va_start(args, format);
    vsnprintf(failure.err.text, sizeof(failure.err.text), format, args);
    va_end(args);
    return client_connection_fail(client, &failure);
}

/* ---- messages of the service ------------------------------------------------------------------------------------- */

/* Sends a delta's event, with its log probabilities. Returns 0, or the code with which the connection ended. */
static int delta_send(CoordgenClient *client, ClientRequest *request, const Coordgen__V1__GenerateDelta *delta,
                      CoordgenEvent *event) {
    _cleanup_(client_logprobs_deinit) ClientLogprobs logprobs = { 0 };
    const int r = client_logprobs_fill(&logprobs, delta, event);

    if (r)
        return connection_failf(client, r, "request %" PRIu64 ": %s", request->id,
                                r == COORDGEN_E_NO_MEMORY ? "out of memory for log probabilities"
                                                          : "log probabilities without those of the token");
    event_send(client, request, event);
    return 0;
}

static int delta_take(CoordgenClient *client, ClientRequest *request, const Coordgen__V1__GenerateDelta *delta) {
    CoordgenEvent event = { .struct_bytes = sizeof(event), .kind = COORDGEN_EVENT_DELTA };
    CoordgenCallDelta call;
    ClientAnswer *answer;

    if (delta->sequence != request->n_deltas)
        return connection_failf(client, COORDGEN_E_BAD_REPLY,
                                "request %" PRIu64 ": part %" PRIu64 " of the text came where part %" PRIu64 " was due",
                                request->id, delta->sequence, request->n_deltas);
    if (delta->choice >= CLIENT_CHOICES_MAX)
        return connection_failf(client, COORDGEN_E_BAD_REPLY, "request %" PRIu64 ": text of answer %" PRIu32,
                                request->id, delta->choice);
    answer = client_choices_get(&request->choices, &request->answer, delta->choice);
    if (!answer)
        return connection_failf(client, COORDGEN_E_NO_MEMORY, "out of memory for the text of an answer");
    event.choice = delta->choice;
    event.model = delta->model;
    switch (client_answer_add(answer, delta, &event, &call)) {
    case CLIENT_ANSWER_E_TEXT:
        return connection_failf(client, COORDGEN_E_BAD_REPLY, "request %" PRIu64 ": text that is not valid UTF-8",
                                request->id);
    case CLIENT_ANSWER_E_CALL:
        return connection_failf(client, COORDGEN_E_BAD_REPLY,
                                "request %" PRIu64 ": a piece of call %" PRIu32 ", which does not follow call %zu",
                                request->id, delta->call->index, answer->calls.n);
    case CLIENT_ANSWER_E_MEMORY:
        return connection_failf(client, COORDGEN_E_NO_MEMORY, "out of memory for the text of an answer");
    default:
        break;
    }
    request->n_deltas++;
    return delta_send(client, request, delta, &event);
}

static void progress_take(CoordgenClient *client, ClientRequest *request, const Coordgen__V1__Response *response) {
    CoordgenEvent event = { .struct_bytes = sizeof(event), .kind = COORDGEN_EVENT_PROGRESS, .model = "" };

    if (response->op_case == COORDGEN__V1__RESPONSE__OP_GENERATE_PROGRESS) {
        event.queue_position = response->generate_progress->queue_position;
        event.prefilled_tokens = response->generate_progress->prefilled_tokens;
        event.prompt_tokens = response->generate_progress->prompt_tokens;
        event.cached_tokens = response->generate_progress->cached_tokens;
        event.model_state = (int)response->generate_progress->model_state;
        event.permille = response->generate_progress->model_permille;
        event.model = response->generate_progress->model ? response->generate_progress->model : "";
    } else {
        event.model_state = (int)response->model_load_progress->state;
        event.permille = response->model_load_progress->permille;
    }
    event_send(client, request, &event);
}

/* The response that ends a request of each kind successfully. */
static const Coordgen__V1__Response__OpCase end_ops[_REQUEST_KIND_N] = {
    [REQUEST_HELLO] = COORDGEN__V1__RESPONSE__OP_HELLO,
    [REQUEST_CANCEL] = COORDGEN__V1__RESPONSE__OP_CANCEL,
    [REQUEST_GENERATE] = COORDGEN__V1__RESPONSE__OP_GENERATE_DONE,
    [REQUEST_TOKENIZE] = COORDGEN__V1__RESPONSE__OP_TOKENIZE,
    [REQUEST_DETOKENIZE] = COORDGEN__V1__RESPONSE__OP_DETOKENIZE,
    [REQUEST_EMBED] = COORDGEN__V1__RESPONSE__OP_EMBED,
    [REQUEST_STATUS] = COORDGEN__V1__RESPONSE__OP_STATUS,
    [REQUEST_MODEL_LIST] = COORDGEN__V1__RESPONSE__OP_MODEL_LIST,
    [REQUEST_MODEL_SHOW] = COORDGEN__V1__RESPONSE__OP_MODEL_SHOW,
    [REQUEST_MODEL_LOAD] = COORDGEN__V1__RESPONSE__OP_MODEL_LOAD,
    [REQUEST_MODEL_UNLOAD] = COORDGEN__V1__RESPONSE__OP_MODEL_UNLOAD,
    [REQUEST_MODEL_PAIR] = COORDGEN__V1__RESPONSE__OP_MODEL_PAIR,
    [REQUEST_MODEL_PAIR_LIST] = COORDGEN__V1__RESPONSE__OP_MODEL_PAIR_LIST,
    [REQUEST_MODEL_DEFAULT] = COORDGEN__V1__RESPONSE__OP_MODEL_DEFAULT,
    [REQUEST_SESSION_OPEN] = COORDGEN__V1__RESPONSE__OP_SESSION_OPEN,
    [REQUEST_SESSION_FORK] = COORDGEN__V1__RESPONSE__OP_SESSION_FORK,
    [REQUEST_SESSION_CLOSE] = COORDGEN__V1__RESPONSE__OP_SESSION_CLOSE,
    [REQUEST_LIST] = COORDGEN__V1__RESPONSE__OP_REQUEST_LIST,
    [REQUEST_EXPLAIN] = COORDGEN__V1__RESPONSE__OP_EXPLAIN,
    [REQUEST_CANCEL_NUMBER] = COORDGEN__V1__RESPONSE__OP_REQUEST_CANCEL,
    [REQUEST_MODEL_REMOVE] = COORDGEN__V1__RESPONSE__OP_MODEL_REMOVE,
    [REQUEST_DISK] = COORDGEN__V1__RESPONSE__OP_DISK,
    [REQUEST_PRUNE] = COORDGEN__V1__RESPONSE__OP_PRUNE,
    [REQUEST_DRAFT_DB_STATS] = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_STATS,
    [REQUEST_DRAFT_DB_FORGET] = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_FORGET,
    [REQUEST_DRAFT_DB_FREEZE] = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_FREEZE,
    [REQUEST_DRAFT_DB_EXPORT] = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_EXPORT,
    [REQUEST_DRAFT_DB_IMPORT] = COORDGEN__V1__RESPONSE__OP_DRAFT_DB_IMPORT,
};

static int done_take(CoordgenClient *client, ClientRequest *request, Coordgen__V1__Response **responsep) {
    const Coordgen__V1__Response *response = *responsep;

    if (request->kind == REQUEST_GENERATE && response->generate_done->has_deltas &&
        response->generate_done->deltas != request->n_deltas)
        return connection_failf(client, COORDGEN_E_BAD_REPLY,
                                "request %" PRIu64 ": %" PRIu64 " parts of the text came of %" PRIu64, request->id,
                                request->n_deltas, response->generate_done->deltas);
    if (request->kind == REQUEST_HELLO) {
        client->greeted = true;
        if (response->hello->service_version)
            snprintf(client->service_version, sizeof(client->service_version), "%s", response->hello->service_version);
    }
    return request_end(client, request, NULL, responsep);
}

/* Handles a message of the service. Returns 0, or the code with which the connection ended. */
static int response_take(CoordgenClient *client, Coordgen__V1__Response **responsep) {
    const Coordgen__V1__Response *response = *responsep;
    ClientRequest *request = client_table_find(client, response->request_id);
    ClientFailure failure;

    if (response->op_case == COORDGEN__V1__RESPONSE__OP_ERROR) {
        client_failure_from_wire(&failure, response->error);
        if (!response->request_id || (request && request->kind == REQUEST_HELLO))
            return client_connection_fail(client, &failure);
        return request ? request_end(client, request, &failure, responsep) : 0;
    }
    if (!request) {
        /* The rest of an answer may come after a timeout. */
        if (client_table_was_sent(client, response->request_id))
            return 0;
        return connection_failf(client, COORDGEN_E_BAD_REPLY, "an answer to request %" PRIu64 ", which was never sent",
                                response->request_id);
    }
    if (response->op_case == end_ops[request->kind])
        return done_take(client, request, responsep);
    if (request->kind == REQUEST_GENERATE && response->op_case == COORDGEN__V1__RESPONSE__OP_GENERATE_DELTA)
        return delta_take(client, request, response->generate_delta);
    if ((request->kind == REQUEST_GENERATE && response->op_case == COORDGEN__V1__RESPONSE__OP_GENERATE_PROGRESS) ||
        (request->kind == REQUEST_MODEL_LOAD && response->op_case == COORDGEN__V1__RESPONSE__OP_MODEL_LOAD_PROGRESS)) {
        progress_take(client, request, response);
        return 0;
    }
    return connection_failf(client, COORDGEN_E_BAD_REPLY, "request %" PRIu64 ": an answer of another kind (%d)",
                            request->id, (int)response->op_case);
}

/* ---- dispatch ---------------------------------------------------------------------------------------------------- */

static int frames_take(CoordgenClient *client) {
    const uint8_t *body;
    size_t body_bytes;
    ErrText err = { 0 };
    int r;

    while (client->state == CLIENT_CONNECTED) {
        _cleanup_(frame_response_freep) Coordgen__V1__Response *response = NULL;
        FrameFault fault;

        r = frame_reader_next(&client->reader, &body, &body_bytes, &err);
        if (r == FRAME_E_MORE)
            return 0;
        if (r)
            return connection_failf(client, COORDGEN_E_BAD_REPLY, "from the service: %s", err.text);
        r = frame_decode_response(body, body_bytes, &response, &fault);
        if (r)
            return connection_failf(client, r < 0 ? COORDGEN_E_NO_MEMORY : COORDGEN_E_BAD_REPLY, "from the service: %s",
                                    fault.err.text);
        r = response_take(client, &response);
        if (r)
            return r;
    }
    return client->failure.code;
}

static int socket_read(CoordgenClient *client) {
    for (unsigned i = 0; i < READS_MAX; i++) {
        size_t room_bytes;
        uint8_t *room;
        ssize_t n;
        int r;

        if (frame_reader_room(&client->reader, READ_BYTES, &room, &room_bytes))
            return connection_failf(client, COORDGEN_E_NO_MEMORY, "out of memory for an answer");
        n = recv(client->socket_fd, room, room_bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n < 0)
            return connection_failf(client, COORDGEN_E_DISCONNECTED, "%s: %s", client->socket_path, strerror(errno));
        if (n == 0)
            return connection_failf(client, COORDGEN_E_DISCONNECTED, "%s: the service closed the connection",
                                    client->socket_path);
        frame_reader_filled(&client->reader, (size_t)n);
        r = frames_take(client);
        if (r)
            return r;
    }
    return 0;
}

/* Ends requests that are past their deadline, and tells the service; later messages for them are dropped. */
static void deadlines_take(CoordgenClient *client) {
    uint64_t now_ns = clock_now_ns();

    for (;;) {
        ClientFailure failure = { .code = COORDGEN_E_TIMEOUT };
        ClientRequest *request;

        pthread_mutex_lock(&client->lock);
        for (request = client->requests; request && request->deadline_ns > now_ns;)
            request = request->next;
        pthread_mutex_unlock(&client->lock);
        if (!request)
            return;
        (void)coordgen_cancel(client, request->id);
        snprintf(failure.err.text, sizeof(failure.err.text), "the time for the request is over; it was cancelled");
        request_end(client, request, &failure, NULL);
    }
}

/**
 * coordgen_client_dispatch() - see the header
 *
 * The callbacks run without the lock, so that they may start and cancel requests.
 */
int coordgen_client_dispatch(CoordgenClient *client) {
    int r;

    r = client_check_usable(client, true);
    if (r)
        return r;
    if (client->state != CLIENT_CONNECTED)
        return client_fail(client, client->state == CLIENT_DEAD ? COORDGEN_E_DISCONNECTED : COORDGEN_E_WRONG_STATE, "",
                           0, client->state == CLIENT_DEAD ? "the connection is over" : "the client is not connected");
    client->in_dispatch = true;
    r = socket_read(client);
    if (!r) {
        pthread_mutex_lock(&client->lock);
        client_flush_locked(client);
        pthread_mutex_unlock(&client->lock);
        deadlines_take(client);
    }
    client->in_dispatch = false;
    return r;
}

int coordgen_client_timeout_ms(CoordgenClient *client) {
    uint64_t nearest_ns = UINT64_MAX, now_ns;

    if (!client)
        return -1;
    pthread_mutex_lock(&client->lock);
    for (const ClientRequest *request = client->requests; request; request = request->next)
        if (request->deadline_ns < nearest_ns)
            nearest_ns = request->deadline_ns;
    pthread_mutex_unlock(&client->lock);
    if (nearest_ns == UINT64_MAX)
        return -1;
    now_ns = clock_now_ns();
    if (nearest_ns <= now_ns)
        return 0;
    nearest_ns = (nearest_ns - now_ns) / 1000000u + 1;
    return nearest_ns > INT_MAX ? INT_MAX : (int)nearest_ns;
}

size_t coordgen_client_n_in_flight(const CoordgenClient *client) {
    pthread_mutex_t *lock;
    size_t n = 0;

    if (!client)
        return 0;
    lock = (pthread_mutex_t *)(uintptr_t)&client->lock;
    pthread_mutex_lock(lock);
    for (const ClientRequest *request = client->requests; request; request = request->next)
        n += request->kind >= REQUEST_GENERATE;
    pthread_mutex_unlock(lock);
    return n;
}
