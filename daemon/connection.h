// SPDX-License-Identifier: Apache-2.0
/* One client: frames in, frames out, never more in memory than its limits. Owned by the loop. */
#ifndef COORDGEN_DAEMON_CONNECTION_H
#define COORDGEN_DAEMON_CONNECTION_H

#include <event2/bufferevent.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/account.h"
#include "daemon/inlet.h"
#include "daemon/server.h"
#include "proto/frame.h"

typedef enum ConnectionState {
    CONNECTION_HELLO, /* nothing but a Hello is legal */
    CONNECTION_OPEN,
    CONNECTION_CLOSING, /* nothing is read any more; closed when the output is written */
    CONNECTION_DEAD,    /* freed when the loop is back at its top */
} ConnectionState;

struct Connection { /* all loop */
    Server *server;
    uint64_t serial;
    uid_t uid;
    User *user; /* of that uid; held */
    pid_t pid;
    bool is_admin;       /* came through the administrators' socket */
    bool may_administer; /* or is root, or the user that the service runs as: may load and unload models */
    bool choked;         /* unread output past the limit: nothing is read, generations pause, no request starts */
    bool small_runs;     /* a request of it that is not a generation is with the engine thread */
    ConnectionState state;
    char client_name[65];
    uint32_t frame_max_bytes;   /* const: what its Hello reply says, whatever a reload changes */
    struct bufferevent *stream; /* written to only: an inlet reads */
    struct event *readable;
    Inlet inlet;
    int frame_fd;              /* the file that came with the frame that is served, for who takes it; -1: none */
    struct event *frame_timer; /* runs while part of a frame is there */
    struct event *reap;        /* frees a dead connection from the top of the loop */
    struct event *hello_timer; /* runs until its Hello has come */
    struct event *turn;        /* the next one: runs while frames wait that this one had no time for */
    uint32_t work_left;        /* in this turn */
    bool waits;                /* frames are there, and it is not its turn: nothing is read */
    uint64_t awaited_scan;     /* of the models' folder: its first frame is served after that; 0: it waits for none */
    RequestList requests;
    SessionList sessions; /* that it has opened */
    unsigned int n_requests;
    uint64_t served_ns;   /* when its last frame was */
    int queued_bytes;     /* in the socket, unread, when that was last looked at; with what the kernel adds */
    uint64_t accepted_ns; /* when its client was last seen to have read, or to have nothing to read */
    Bill bill;            /* the object and its output buffer */
    Bill frame_bill;      /* the frame that is arriving */
    Bill output_bill;     /* what is unsent beyond the output buffer */
    TAILQ_ENTRY(Connection) link;
};

/* Takes the descriptor in any case. 0, ACCOUNT_E_LIMIT, -errno. */
int connection_new(Connection **connectionp, Server *server, int fd, bool is_admin);
Connection *connection_free(Connection *connection); /* its requests are abandoned */
DEFINE_CLEANUP(Connection, connection_free)

/* connection_memory.c: charges the account sessions for what this client asks for. 0, or ACCOUNT_E_LIMIT: connection_limit() was reached. */
int connection_charge(Connection *connection, Bill *bill, uint64_t bytes);
const char *connection_limit(const Connection *connection);
/* What the frame that is served costs the loop beside its bytes; one unit is about 10 us. */
void connection_spend(Connection *connection, uint64_t work);
/* Whether the frame that is served must wait for news of the models' folder: its handler returns and is called again. */
bool connection_await_folder(Connection *connection);
void connection_on_folder(Connection *connection); /* a scan has ended */
/* Queues one reply. A connection that cannot take it dies. */
void connection_send(Connection *connection, const Coordgen__V1__Response *response);
/* One last error (request_id 0), then the end. */
void connection_fail(Connection *connection, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
void connection_close_when_written(Connection *connection);
/* One error to a client that is not taken in; closes the descriptor. */
void connection_refuse(int fd, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *text);
/* Frees a connection with no caller further up; its client is told why, if it is one that has said Hello. */
void connection_dismiss(Connection *connection, Coordgen__V1__ErrorCode code, const char *text);
bool connection_is_idle(const Connection *connection); /* no request, no session, nothing on its way in or out */
int connection_fd(const Connection *connection);
/* Whether its client has read nothing for so long, though there was something. */
bool connection_is_stalled(Connection *connection, uint64_t limit_ns);
size_t connection_unsent_bytes(const Connection *connection);
/* Peer of a connected socket. */
int connection_peer(int fd, uid_t *uidp, pid_t *pidp);

#endif
