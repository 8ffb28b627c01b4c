// SPDX-License-Identifier: Apache-2.0
/* A conversation that the service remembers for a client: what was said, and a hold on what is kept of it. Owned by
 * the loop. */
#ifndef COORDGEN_DAEMON_SESSION_H
#define COORDGEN_DAEMON_SESSION_H

#include "base/strings/str_buf.h"
#include "daemon/engine/engine_thread.h"
#include "daemon/engine/job.h"
#include "daemon/net/peer.h"

typedef struct Request Request;

typedef struct SessionTable { /* all loop */
    Loop *loop;
    EngineThread *engine_thread;
    PrefixCache *prefix_cache; /* engine thread; NULL: nothing is kept */
    unsigned int n_open;
    uint64_t last_id;
    bool engine_ended; /* the loop may touch what was the engine thread's */
} SessionTable;

typedef enum SessionInput {
    SESSION_EMPTY,
    SESSION_CHAT, /* messages */
    SESSION_RAW,  /* a text that prompts and answers are appended to */
} SessionInput;

typedef struct Session { /* all loop, but the pin */
    SessionTable *table;
    Peer *peer;  /* NULL: closed; goes when its request has ended */
    uint64_t id; /* unique in the service's life */
    User *user;  /* held */
    char *model_name;
    SessionInput input;
    ChatMessage *messages; /* [n_messages]; texts are owned */
    size_t n_messages;
    StrBuf text;      /* SESSION_RAW */
    Request *request; /* the generation that answers in it; NULL: none */
    PrefixPin pin;    /* engine thread */
    Job job;          /* JOB_SESSION_FORK, JOB_SESSION_CLOSE */
    bool job_runs;
    Bill bill;
    TAILQ_ENTRY(Session) peer_link;
} Session;

/* An empty one, in the list of its client. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
int session_new(Session **sessionp, SessionTable *table, Peer *peer, const char *model_name);
/* Leaves its client at once. A generation that still answers in it is the caller's to cancel; the memory goes back when
 * the engine thread has let go. */
void session_close(Session *session);
Session *session_find(Peer *peer, uint64_t id);

/* Appends copies; all or nothing. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
int session_add_messages(Session *session, const ChatMessage *messages, size_t n);
int session_add_text(Session *session, const char *text, size_t len_bytes);
size_t session_text_bytes(const Session *session);
uint64_t session_work(const Session *session); /* what a copy of it costs the loop, for connection_spend() */
/* The new one holds what the other one holds, once its engine thread has come to it. */
void session_fork_pin(Session *session, Session *from);

void session_attach(Session *session, Request *request);     /* the request runs in it */
void session_detach(Session *session);                       /* it has ended */
void session_on_news(Session *session, const JobNews *news); /* of its job */

#endif
