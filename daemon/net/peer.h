// SPDX-License-Identifier: Apache-2.0
/* Who is at the other end of a connection: a client of a user, its rights, requests and sessions. Owned by the loop. */
#ifndef COORDGEN_DAEMON_PEER_H
#define COORDGEN_DAEMON_PEER_H

#include "daemon/net/connection.h"

TAILQ_HEAD(SessionList, Session);
typedef struct SessionList SessionList;
typedef struct Service Service;

typedef struct Peer {       /* all loop */
    Service *service;       /* that its handlers serve it with: for nobody else */
    Connection *connection; /* owned */
    User *user;             /* held */
    pid_t pid;
    bool is_admin;       /* came through the administrators' socket */
    bool may_administer; /* or is root, or the user that the service runs as: may load and unload models */
    bool small_runs;     /* a request of it that is not a generation is with the engine thread */
    char name[65];       /* as its Hello says */
    RequestList requests;
    unsigned int n_requests;
    SessionList sessions;               /* that it has opened */
    unsigned int n_draft_calls;         /* that the draft store has not answered */
    struct DraftErrand *draft_transfer; /* an export that it reads or an import that comes; owned; NULL: none */
    uint64_t awaited_scan; /* of the models' folder: its first frame is served after that; 0: it waits for none */
    Bill bill;             /* the object, its connection and that one's output buffer */
    TAILQ_ENTRY(Peer) user_link;
} Peer;

/* A client whose descriptor was accepted, which is taken in any case. The ops' arg is the peer; what they do at its end
 * leaves it without requests and sessions. 0, ACCOUNT_E_LIMIT (it was told so), -errno. */
int peer_new(Peer **peerp, UserTable *users, int fd, bool is_admin, const ConnectionOps *ops, Service *service);
Peer *peer_free(Peer *peer);
DEFINE_CLEANUP(Peer, peer_free)

uint64_t peer_bytes(const Config *config); /* that a client costs as soon as it is taken in */
bool peer_is_idle(const Peer *peer);       /* no request, no session, nothing on its way in or out */

#endif
