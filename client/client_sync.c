// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <poll.h>

#include "base/clock.h"
#include "client/client_reply.h"
#include "client/client_reply_internal.h"

/* The state of a call that waits. */
typedef struct Waiter {
    CoordgenEventFn *fn;
    void *arg;
    CoordgenReply *reply;
    bool ended;
} Waiter;

static int waiter_event(void *arg, const CoordgenEvent *event) {
    Waiter *waiter = arg;

    if (event->kind != COORDGEN_EVENT_END)
        return waiter->fn ? waiter->fn(waiter->arg, event) : 0;
    waiter->reply = coordgen_reply_ref(event->reply);
    waiter->ended = true;
    return 0;
}

/* Dispatches until the waiter's request has ended. started: the result of its _start(). */
static int wait_for(CoordgenClient *client, Waiter *waiter, int started, CoordgenReply **replyp) {
    int r;

    if (started)
        return started;
    while (!waiter->ended) {
        struct pollfd wait = { .fd = client->epoll_fd, .events = POLLIN };

        /* A signal only wakes the loop; the caller ends a request by coordgen_cancel(). */
        (void)poll(&wait, 1, coordgen_client_timeout_ms(client));
        r = coordgen_client_dispatch(client);
        if (r == COORDGEN_E_WRONG_STATE) /* a callback forked: this process has no connection */
            return r;
        /* Any other failure of the connection has ended the request. */
    }
    r = coordgen_reply_error(waiter->reply);
    if (r && waiter->reply)
        client->failure = waiter->reply->failure;
    else if (r)
        client_fail(client, r, "", 0, "%s", coordgen_reply_message(NULL));
    if (replyp)
        *replyp = steal(&waiter->reply);
    coordgen_reply_unref(waiter->reply);
    return r;
}

int coordgen_generate(CoordgenClient *client, const CoordgenGenerateOptions *options, CoordgenEventFn *fn, void *arg,
                      CoordgenReply **replyp) {
    Waiter waiter = { .fn = fn, .arg = arg };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter, coordgen_generate_start(client, options, waiter_event, &waiter, NULL),
                           replyp);
}

/* started: the result of the _start() of an open or fork. */
static int wait_for_session(CoordgenClient *client, Waiter *waiter, int started, uint64_t *sessionp) {
    _cleanup_(coordgen_reply_unrefp) CoordgenReply *reply = NULL;
    int r = wait_for(client, waiter, started, &reply);

    if (!r)
        *sessionp = coordgen_reply_session(reply);
    return r;
}

/* Checks sessionp before anything is sent: a session whose number is lost could never be closed. */
static int check_session(CoordgenClient *client, const uint64_t *sessionp) {
    int r = client_check_usable(client, true);

    if (!r && !sessionp)
        r = client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "sessionp", 0,
                        "there is no place for the session's number: sessionp is NULL");
    return r;
}

int coordgen_session_open(CoordgenClient *client, const CoordgenSessionOptions *options, uint64_t *sessionp) {
    Waiter waiter = { 0 };

    return check_session(client, sessionp)
               ?: wait_for_session(client, &waiter,
                                   coordgen_session_open_start(client, options, waiter_event, &waiter, NULL), sessionp);
}

int coordgen_session_fork(CoordgenClient *client, uint64_t session, uint32_t n_messages, int timeout_ms,
                          uint64_t *sessionp) {
    Waiter waiter = { 0 };

    return check_session(client, sessionp)
               ?: wait_for_session(
                      client, &waiter,
                      coordgen_session_fork_start(client, session, n_messages, timeout_ms, waiter_event, &waiter, NULL),
                      sessionp);
}

int coordgen_session_close(CoordgenClient *client, uint64_t session, int timeout_ms) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_session_close_start(client, session, timeout_ms, waiter_event, &waiter, NULL),
                           NULL);
}

int coordgen_tokenize(CoordgenClient *client, const CoordgenTokenizeOptions *options, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter, coordgen_tokenize_start(client, options, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_embed(CoordgenClient *client, const CoordgenEmbedOptions *options, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter, coordgen_embed_start(client, options, waiter_event, &waiter, NULL), replyp);
}

int coordgen_detokenize(CoordgenClient *client, const CoordgenDetokenizeOptions *options, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter, coordgen_detokenize_start(client, options, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_status(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter, coordgen_status_start(client, timeout_ms, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_request_list(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_request_list_start(client, timeout_ms, waiter_event, &waiter, NULL), replyp);
}

int coordgen_explain(CoordgenClient *client, uint64_t number, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_explain_start(client, number, timeout_ms, waiter_event, &waiter, NULL), replyp);
}

int coordgen_ping(CoordgenClient *client, int timeout_ms, uint64_t *round_trip_usp) {
    uint64_t start_ns = clock_now_ns();
    int r;

    r = coordgen_status(client, timeout_ms, NULL);
    if (!r && round_trip_usp)
        *round_trip_usp = (clock_now_ns() - start_ns) / 1000u;
    return r;
}

int coordgen_model_list(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter, coordgen_model_list_start(client, timeout_ms, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_model_show(CoordgenClient *client, const char *model, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_model_show_start(client, model, timeout_ms, waiter_event, &waiter, NULL), replyp);
}

int coordgen_model_load(CoordgenClient *client, const char *model, int timeout_ms, CoordgenEventFn *fn, void *arg,
                        CoordgenReply **replyp) {
    Waiter waiter = { .fn = fn, .arg = arg };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_model_load_start(client, model, timeout_ms, waiter_event, &waiter, NULL), replyp);
}

int coordgen_model_load_file(CoordgenClient *client, const char *path, int timeout_ms, CoordgenEventFn *fn, void *arg,
                             CoordgenReply **replyp) {
    Waiter waiter = { .fn = fn, .arg = arg };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_model_load_file_start(client, path, timeout_ms, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_model_unload(CoordgenClient *client, const char *model, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_model_unload_start(client, model, timeout_ms, waiter_event, &waiter, NULL), replyp);
}

int coordgen_model_want(CoordgenClient *client, const char *model, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_model_want_start(client, model, timeout_ms, waiter_event, &waiter, NULL), replyp);
}

int coordgen_model_default(CoordgenClient *client, const char *model, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_model_default_start(client, model, timeout_ms, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_model_pair(CoordgenClient *client, const char *target, const char *draft, int timeout_ms,
                        CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_model_pair_start(client, target, draft, timeout_ms, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_model_pair_list(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_model_pair_list_start(client, timeout_ms, waiter_event, &waiter, NULL), replyp);
}

int coordgen_request_cancel(CoordgenClient *client, uint64_t number, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_request_cancel_start(client, number, timeout_ms, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_model_remove(CoordgenClient *client, const char *model, bool dry_run, int timeout_ms,
                          CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_model_remove_start(client, model, dry_run, timeout_ms, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_disk(CoordgenClient *client, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter, coordgen_disk_start(client, timeout_ms, waiter_event, &waiter, NULL),
                           replyp);
}

int coordgen_prune(CoordgenClient *client, unsigned int flags, int timeout_ms, CoordgenReply **replyp) {
    Waiter waiter = { 0 };

    return client_check_usable(client, true)
               ?: wait_for(client, &waiter,
                           coordgen_prune_start(client, flags, timeout_ms, waiter_event, &waiter, NULL), replyp);
}
