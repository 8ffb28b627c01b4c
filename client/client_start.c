// SPDX-License-Identifier: Apache-2.0
/* Starts and cancels requests. */
#include <stdlib.h>

#include "base/clock.h"
#include "client/client_internal.h"

int client_start(CoordgenClient *client, RequestKind kind, Coordgen__V1__Request *message, int timeout_ms,
                 CoordgenEventFn *fn, void *arg, uint64_t *request_idp) {
    return client_start_file(client, kind, message, -1, timeout_ms, fn, arg, request_idp);
}

/**
 * client_start_file() - number a request, add it to the table, send it
 * @message: has its operation set; nothing of it is kept
 * @fd:      sent with the request, stays the caller's; -1: none
 *
 * Return: 0, or a CoordgenError with nothing sent, which coordgen_client_message() explains.
 */
int client_start_file(CoordgenClient *client, RequestKind kind, Coordgen__V1__Request *message, int fd, int timeout_ms,
                      CoordgenEventFn *fn, void *arg, uint64_t *request_idp) {
    ClientRequest *request;
    int r;

    r = client_check_usable(client, false);
    if (r)
        return r;
    request = calloc(1, sizeof(*request));
    if (!request)
        return client_fail(client, COORDGEN_E_NO_MEMORY, "", 0, "out of memory for a request");
    *request = (ClientRequest){
        .kind = kind,
        .fn = fn,
        .arg = arg,
        .deadline_ns = timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * 1000000u,
    };
    pthread_mutex_lock(&client->lock);
    if (client->state != CLIENT_CONNECTED) {
        bool dead = client->state == CLIENT_DEAD;

        pthread_mutex_unlock(&client->lock);
        client_request_free(request);
        return dead ? client_fail(client, COORDGEN_E_DISCONNECTED, "", 0, "the connection to %s is over",
                                  client->socket_path)
                    : client_fail(client, COORDGEN_E_WRONG_STATE, "", 0, "the client is not connected");
    }
    request->id = client->next_id;
    message->has_request_id = true;
    message->request_id = request->id;
    r = client_send_locked(client, message, fd, &client->failure);
    if (!r) {
        client->next_id++;
        request->next = client->requests;
        client->requests = request;
        if (request_idp)
            *request_idp = request->id;
        request = NULL;
    }
    pthread_mutex_unlock(&client->lock);
    client_request_free(request);
    return r;
}

/* Queues a CancelRequest with an id of its own; the library takes its reply. The caller holds the lock. */
static int cancel_send_locked(CoordgenClient *client, ClientRequest *target) {
    Coordgen__V1__CancelRequest cancel = COORDGEN__V1__CANCEL_REQUEST__INIT;
    Coordgen__V1__Request message = COORDGEN__V1__REQUEST__INIT;
    ClientRequest *request;
    ClientFailure failure;
    int r;

    if (target->cancel_sent)
        return 0;
    request = calloc(1, sizeof(*request));
    if (!request)
        return COORDGEN_E_NO_MEMORY;
    *request = (ClientRequest){ .kind = REQUEST_CANCEL, .id = client->next_id, .deadline_ns = UINT64_MAX };
    cancel.has_target_request_id = message.has_request_id = true;
    cancel.target_request_id = target->id;
    message.request_id = request->id;
    message.op_case = COORDGEN__V1__REQUEST__OP_CANCEL;
    message.cancel = &cancel;
    r = client_send_locked(client, &message, -1, &failure);
    if (r) {
        client_request_free(request);
        return r;
    }
    client->next_id++;
    target->cancel_sent = true;
    request->next = client->requests;
    client->requests = request;
    return 0;
}

/**
 * coordgen_cancel() - see the header
 *
 * The calling thread sends the frame under the lock. If the socket is full, the epoll set waits for room in it, and
 * wakes the owner thread. Thread: any.
 */
int coordgen_cancel(CoordgenClient *client, uint64_t request_id) {
    int r = 0;

    if (!client)
        return COORDGEN_E_INVALID_ARGUMENT;
    pthread_mutex_lock(&client->lock);
    if (client->state == CLIENT_CONNECTED)
        for (ClientRequest *request = client->requests; request && !r; request = request->next)
            if (request->kind >= REQUEST_GENERATE && (!request_id || request->id == request_id))
                r = cancel_send_locked(client, request);
    pthread_mutex_unlock(&client->lock);
    return r;
}
