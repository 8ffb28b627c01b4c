// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/session.h"

#include <assert.h>
#include <string.h>

enum { /* units of connection_spend() */
    MESSAGES_A_UNIT = 64,
    BYTES_A_UNIT = 64 << 10,
};

static void free_texts(ChatMessage *messages, size_t n) {
    for (size_t i = 0; i < n; i++)
        chat_message_deinit(&messages[i]);
    free(messages);
}

static Session *session_free(Session *session) {
    if (!session)
        return NULL;
    free_texts(session->messages, session->n_messages);
    str_buf_deinit(&session->text);
    job_news_deinit(&session->job.news);
    bill_settle(&session->bill);
    user_unref(session->user);
    free(session->model_name);
    free(session);
    return NULL;
}
DEFINE_CLEANUP(Session, session_free)

int session_new(Session **sessionp, SessionTable *table, Peer *peer, const char *model_name) {
    _cleanup_(session_freep) Session *session = calloc(1, sizeof(*session));
    int r;

    assert_on_loop(table->loop);
    if (!session)
        return err_raise(-ENOMEM);
    session->user = user_ref(peer->user);
    r = user_charge(peer->user, peer->is_admin, &session->bill, sizeof(*session) + strlen(model_name));
    if (r)
        return r;
    session->model_name = strdup(model_name);
    if (!session->model_name)
        return err_raise(-ENOMEM);
    session->table = table;
    session->peer = peer;
    session->id = ++table->last_id;
    session->job.owner = session;
    TAILQ_INSERT_TAIL(&peer->sessions, session, peer_link);
    table->n_open++;
    session->user->n_sessions++;
    *sessionp = steal(&session);
    return 0;
}

static void submit_job(Session *session) {
    session->job.pins.cache = session->table->prefix_cache;
    session->job.pins.pin = &session->pin;
    session->job_runs = true;
    engine_thread_submit(session->table->engine_thread, &session->job);
}

/* Frees a closed session, after the engine thread, which owns the prefix cache, has released the session's pin. */
static void release(Session *session) {
    SessionTable *table = session->table;

    if (session->request || session->job_runs)
        return; /* the end of the request or job calls release() again */
    if (table->engine_ended && table->prefix_cache)
        prefix_pin_release(table->prefix_cache, &session->pin);
    if (table->engine_ended || !table->prefix_cache) {
        session_free(session);
        return;
    }
    session->job.kind = JOB_SESSION_CLOSE;
    submit_job(session);
}

void session_close(Session *session) {
    assert_on_loop(session->table->loop);
    TAILQ_REMOVE(&session->peer->sessions, session, peer_link);
    session->table->n_open--;
    session->user->n_sessions--;
    session->peer = NULL;
    release(session);
}

Session *session_find(Peer *peer, uint64_t id) {
    Session *session;

    TAILQ_FOREACH (session, &peer->sessions, peer_link)
        if (session->id == id)
            return session;
    return NULL;
}

/* ---- messages and texts ------------------------------------------------------------------------------------------ */

static int copy_messages(ChatMessage *to, const ChatMessage *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int r = chat_message_copy(&to[i], &from[i]);

        if (r) {
            while (i)
                chat_message_deinit(&to[--i]);
            return r;
        }
    }
    return 0;
}

int session_add_messages(Session *session, const ChatMessage *messages, size_t n) {
    const size_t n_all = session->n_messages + n;
    uint64_t bytes = n * sizeof(*messages);
    ChatMessage *all;
    int r;

    assert(session->input != SESSION_RAW);
    for (size_t i = 0; i < n; i++)
        bytes += chat_message_bytes(&messages[i]) + 1;
    r = user_charge(session->user, session->peer->is_admin, &session->bill, bytes);
    if (r)
        return r;
    /* The array may move: running requests point to the texts, never to the array. */
    all = reallocarray(session->messages, n_all, sizeof(*all));
    if (!all)
        return err_raise(-ENOMEM);
    session->messages = all;
    r = copy_messages(all + session->n_messages, messages, n);
    if (r)
        return r;
    session->n_messages = n_all;
    session->input = SESSION_CHAT;
    return 0;
}

int session_add_text(Session *session, const char *text, size_t len_bytes) {
    int r;

    assert(session->input != SESSION_CHAT);
    r = user_charge(session->user, session->peer->is_admin, &session->bill, len_bytes);
    if (r)
        return r;
    str_buf_append(&session->text, text, len_bytes);
    if (str_buf_failed(&session->text))
        return err_raise(-ENOMEM);
    session->input = SESSION_RAW;
    return 0;
}

size_t session_text_bytes(const Session *session) {
    size_t sum_bytes = session->text.len_bytes;

    for (size_t i = 0; i < session->n_messages; i++)
        sum_bytes += chat_message_bytes(&session->messages[i]);
    return sum_bytes;
}

uint64_t session_work(const Session *session) {
    return session->n_messages / MESSAGES_A_UNIT + session_text_bytes(session) / BYTES_A_UNIT;
}

/* ---- requests and jobs ------------------------------------------------------------------------------------------- */

void session_fork_pin(Session *session, Session *from) {
    SessionTable *table = session->table;

    if (!table->prefix_cache)
        return;
    /* If the source is closed meanwhile, its pin is released by a job behind this one. */
    session->job.kind = JOB_SESSION_FORK;
    session->job.pins.from = &from->pin;
    submit_job(session);
}

void session_attach(Session *session, Request *request) {
    assert(!session->request);
    session->request = request;
}

void session_detach(Session *session) {
    session->request = NULL;
    if (!session->peer)
        release(session);
}

/* Handles the end of the session's job. A close that the engine thread's end has cancelled did nothing, so it is
 * repeated. */
void session_on_news(Session *session, const JobNews *news) {
    session->job_runs = false;
    if (session->job.kind == JOB_SESSION_CLOSE && !news->result)
        session_free(session);
    else if (!session->peer)
        release(session);
}
