// SPDX-License-Identifier: Apache-2.0
/* Bytes and frames of one client, in and out, never more in memory than its limits. What a frame means is its owner's
 * business. Owned by the loop. */
#ifndef COORDGEN_DAEMON_CONNECTION_H
#define COORDGEN_DAEMON_CONNECTION_H

#include <event2/bufferevent.h>
#include <sys/types.h>

#include "base/memory/account.h"
#include "base/queue.h"
#include "daemon/net/inlet.h"
#include "daemon/users/user.h"
#include "proto/coordgen.pb-c.h"
#include "proto/frame.h"

typedef enum ConnectionState {
    CONNECTION_HELLO, /* what opens it has not come yet */
    CONNECTION_OPEN,
    CONNECTION_CLOSING, /* nothing is read any more; closed when the output is written */
    CONNECTION_DEAD,    /* its owner frees it when the loop is back at its top */
} ConnectionState;

/* What the owner of a connection does. arg is its own; all are called on the loop. */
typedef struct ConnectionOps {
    /* The body of a frame, there until this returns. It may fail, close or put off the connection, never free it. */
    void (*on_frame)(void *arg, const uint8_t *body, size_t len_bytes);
    void (*on_choke)(void *arg, bool choked); /* its client reads too slowly, or has read it all */
    void (*on_end)(void *arg);       /* nothing more is wanted: when it begins to close, and again before it is freed */
    void (*on_closed)(void *arg);    /* it is over, and nobody further up holds it: free it */
    uint32_t (*retry_ms)(void *arg); /* when a client that was told BUSY is to come again */
} ConnectionOps;

typedef struct Connection { /* all loop */
    const ConnectionOps *ops;
    void *arg; /* of those */
    Loop *loop;
    const Config *config;
    User *user;    /* who pays for what it keeps; its owner holds it */
    bool is_admin; /* and as whom */
    uint64_t serial;
    bool takes_files; /* open files may come with frames */
    bool choked;      /* unread output past the limit: nothing is read */
    ConnectionState state;
    uint32_t frame_max_bytes;   /* const: what its Hello reply says, whatever a reload changes */
    struct bufferevent *stream; /* written to only: an inlet reads */
    struct event *readable;
    Inlet inlet;
    int frame_fd;              /* the file that came with the frame that is served, for who takes it; -1: none */
    struct event *frame_timer; /* runs while part of a frame is there */
    struct event *reap;        /* ends a dead connection from the top of the loop */
    struct event *hello_timer; /* runs until it is opened */
    struct event *turn;        /* the next one: runs while frames wait that this one had no time for */
    uint32_t work_left;        /* in this turn */
    bool waits;                /* frames are there, and it is not its turn: nothing is read */
    uint64_t served_ns;        /* when its last frame was */
    int queued_bytes;          /* in the socket, unread, when that was last looked at; with what the kernel adds */
    uint64_t accepted_ns;      /* when its client was last seen to have read, or to have nothing to read */
    Bill frame_bill;           /* the frame that is arriving */
    Bill output_bill;          /* what is unsent beyond the output buffer, which the owner has paid for */
} Connection;

/* Takes the descriptor in any case. 0 or -ENOMEM. */
int connection_new(Connection **connectionp, User *user, bool is_admin, int fd, const ConnectionOps *ops, void *arg);
Connection *connection_free(Connection *connection);
DEFINE_CLEANUP(Connection, connection_free)

void connection_open(Connection *connection); /* its Hello has come */
/* What the frame that is served costs the loop beside its bytes; one unit is about 10 us. */
void connection_spend(Connection *connection, uint64_t work);
/* The frame that is served comes again, with its file, when connection_go_on() is called; nothing is read before. */
void connection_put_off(Connection *connection);
void connection_go_on(Connection *connection);
/* Queues one reply. A connection that cannot take it dies. */
void connection_send(Connection *connection, const Coordgen__V1__Response *response);
void connection_send_error(Connection *connection, uint64_t request_id, Coordgen__V1__ErrorCode code,
                           uint32_t retry_after_ms, const char *field, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* One last error (request_id 0), then the end. */
void connection_fail(Connection *connection, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
/* One error to a client that is not taken in; closes the descriptor. */
void connection_refuse(int fd, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *text);
/* Ends a connection with no caller further up; its client is told why, if it is one that has said Hello. */
void connection_dismiss(Connection *connection, Coordgen__V1__ErrorCode code, const char *text);
bool connection_is_quiet(const Connection *connection); /* open, and nothing is on its way in or out */
int connection_fd(const Connection *connection);
/* Whether its client has read nothing for so long, though there was something. */
bool connection_is_stalled(Connection *connection, uint64_t limit_ns);
size_t connection_unsent_bytes(const Connection *connection);
/* Peer of a connected socket. */
int connection_peer(int fd, uid_t *uidp, pid_t *pidp);

#endif
