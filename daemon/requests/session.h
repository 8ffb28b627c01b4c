// SPDX-License-Identifier: Apache-2.0
/* A conversation that the service remembers for a client: its texts, and a pin on its keys and values in the prefix
 * cache. Owned by the loop. */
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
    bool engine_ended; /* the engine thread has ended: the loop may touch the cache */
} SessionTable;

typedef enum SessionInput {
    SESSION_EMPTY,
    SESSION_CHAT, /* messages */
    SESSION_RAW,  /* a text that prompts and answers are appended to */
} SessionInput;

typedef struct Session { /* all loop, but the pin */
    SessionTable *table;
    Peer *peer;  /* NULL: closed, and freed when its request has ended */
    uint64_t id; /* unique while the service runs */
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

/* Makes an empty session in the list of its client. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
int session_new(Session **sessionp, SessionTable *table, Peer *peer, const char *model_name);
/* Takes the session from its client at once. The caller cancels a generation that still answers in the session. The
 * memory is freed once the engine thread has released the session's pin. */
void session_close(Session *session);
Session *session_find(Peer *peer, uint64_t id);

/* Appends copies; all or nothing. 0, ACCOUNT_E_LIMIT, -ENOMEM. */
int session_add_messages(Session *session, const ChatMessage *messages, size_t n);
int session_add_text(Session *session, const char *text, size_t len_bytes);
size_t session_text_bytes(const Session *session);
uint64_t session_work(const Session *session); /* cost of a copy on the loop, for connection_spend() */
/* Copies the other session's pin to the new session, in a job of the engine thread. */
void session_fork_pin(Session *session, Session *from);

void session_attach(Session *session, Request *request);     /* the request now runs in the session */
void session_detach(Session *session);                       /* the session's request has ended */
void session_on_news(Session *session, const JobNews *news); /* news of the session's job */

#endif
