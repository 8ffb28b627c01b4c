// SPDX-License-Identifier: Apache-2.0
/* The client at the other end of a connection: its user, rights, requests and sessions. Owned by the loop. */
#ifndef COORDGEN_DAEMON_PEER_H
#define COORDGEN_DAEMON_PEER_H

#include "daemon/net/connection.h"

TAILQ_HEAD(SessionList, Session);
typedef struct SessionList SessionList;
typedef struct Service Service;

typedef struct Peer {       /* all loop */
    Service *service;       /* for the handlers alone */
    Connection *connection; /* owned */
    User *user;             /* held */
    pid_t pid;
    bool is_admin;       /* came through the administrators' socket */
    bool may_administer; /* may load and unload models: an administrator, root, or the service's own user */
    bool small_runs;     /* one of its requests that is no generation is with the engine thread */
    char name[65];       /* from the client's Hello */
    RequestList requests;
    unsigned int n_requests;
    SessionList sessions;       /* opened by this client */
    unsigned int n_draft_calls; /* calls that the draft store has not answered */
    struct DraftErrand
        *draft_transfer;   /* owned: an export that the client reads, or an import that arrives; NULL: none */
    uint64_t awaited_scan; /* scan of the models' folder that the first frame waits for; 0: none */
    Bill bill;             /* the object, the connection and the output buffer */
    TAILQ_ENTRY(Peer) user_link;
} Peer;

/* Makes a client of an accepted descriptor, which is taken in any case. ops get the peer as arg; at the client's end
 * they end its requests and sessions. 0, ACCOUNT_E_LIMIT (the client was told), -errno. */
int peer_new(Peer **peerp, UserTable *users, int fd, bool is_admin, const ConnectionOps *ops, Service *service);
Peer *peer_free(Peer *peer);
DEFINE_CLEANUP(Peer, peer_free)

uint64_t peer_bytes(const Config *config); /* memory of a client without requests */
bool peer_is_idle(const Peer *peer);       /* the client has no request, no session and nothing on its way in or out */

#endif
