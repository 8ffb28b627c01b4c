// SPDX-License-Identifier: Apache-2.0
/* The connection of one client: reads frames, queues replies, and keeps both within the limits on memory. The owner of
 * the connection interprets the frames. Owned by the loop. */
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
    CONNECTION_HELLO, /* the client's Hello has not come yet */
    CONNECTION_OPEN,
    CONNECTION_CLOSING, /* reads nothing more; closes when the output is written */
    CONNECTION_DEAD,    /* the owner frees the connection when the loop is back at its top */
} ConnectionState;

/* Callbacks of the connection's owner, called on the loop with Connection.arg. */
typedef struct ConnectionOps {
    /* Serves a frame, whose body is valid until this returns. May fail, close or put off the connection, never free
     * it. */
    void (*on_frame)(void *arg, const uint8_t *body, size_t len_bytes);
    void (*on_choke)(void *arg, bool choked); /* the client reads too slowly, or has caught up */
    void (*on_end)(void *arg);                /* the connection begins to close; called again before on_closed() */
    void (*on_closed)(void *arg);             /* frees the connection, which has no user any more */
    uint32_t (*retry_ms)(void *arg);          /* when a client that was told BUSY is to come again */
} ConnectionOps;

/* The parts of a connection. All are the loop's. */

typedef struct ConnectionInput {
    struct event *readable;
    Inlet inlet;
    bool takes_files;          /* frames may bring open files */
    uint32_t frame_max_bytes;  /* const: as the Hello reply says, also after a reload */
    int fd;                    /* the file that came with the current frame, until a handler takes it; -1: none */
    struct event *frame_timer; /* runs while a frame is incomplete */
    Bill bill;                 /* the frame that is arriving */
} ConnectionInput;

typedef struct ConnectionOutput {
    struct bufferevent *stream; /* for output only: inlet reads */
    bool is_choked;             /* unread output is past the limit: nothing is read */
    int queued_bytes;           /* unread in the socket at the last look, the kernel's overhead included */
    uint64_t accepted_ns;       /* when the client was last seen to read, or to have nothing to read */
    Bill bill;                  /* unsent bytes beyond the output buffer, which the owner has paid for */
} ConnectionOutput;

typedef struct ConnectionTurn { /* connections are served in turns */
    struct event *event;        /* the next turn: pending while frames are left over */
    uint32_t work_left;         /* units of connection_spend() left in this turn */
    bool waits;                 /* frames are left over for the next turn: nothing is read until then */
    uint64_t served_ns;         /* time of the last frame */
} ConnectionTurn;

typedef struct Connection { /* all loop */
    const ConnectionOps *ops;
    void *arg; /* first argument of ops */
    Loop *loop;
    const Config *config;
    User *user;    /* pays for the memory; the connection's owner holds the user */
    bool is_admin; /* pays as an administrator */
    uint64_t serial;
    ConnectionState state;
    ConnectionInput input;
    ConnectionOutput output;
    ConnectionTurn turn;
    struct event *reap;        /* frees a dead connection from the top of the loop */
    struct event *hello_timer; /* runs until the client's Hello has come */
} Connection;

/* Makes a connection of a connected socket; takes the descriptor in any case. 0 or -ENOMEM. */
int connection_new(Connection **connectionp, User *user, bool is_admin, int fd, const ConnectionOps *ops, void *arg);
Connection *connection_free(Connection *connection);
DEFINE_CLEANUP(Connection, connection_free)

void connection_open(Connection *connection); /* to call when the client's Hello has come */
/* Charges the current frame's work to the connection's turn; one unit is about 10 us of the loop. */
void connection_spend(Connection *connection, uint64_t work);
/* Puts the current frame off until connection_go_on(): the frame comes again then, with its file. Nothing is read
 * meanwhile. */
void connection_put_off(Connection *connection);
void connection_go_on(Connection *connection);
/* Queues one reply. Without memory for the reply the connection dies. */
void connection_send(Connection *connection, const Coordgen__V1__Response *response);
void connection_send_error(Connection *connection, uint64_t request_id, Coordgen__V1__ErrorCode code,
                           uint32_t retry_after_ms, const char *field, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Sends a last error with request_id 0 and closes the connection. */
void connection_fail(Connection *connection, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
/* Sends an error to a client that gets no connection, and closes the descriptor. */
void connection_refuse(int fd, Coordgen__V1__ErrorCode code, uint32_t retry_after_ms, const char *text);
/* Ends a connection that no caller up the stack uses. A client that has said Hello is told why. */
void connection_dismiss(Connection *connection, Coordgen__V1__ErrorCode code, const char *text);
bool connection_is_quiet(const Connection *connection); /* the connection is open, with nothing on its way in or out */
int connection_fd(const Connection *connection);
/* Tells whether the client has left output unread for limit_ns. */
bool connection_is_stalled(Connection *connection, uint64_t limit_ns);
size_t connection_unsent_bytes(const Connection *connection);
/* Reads user and process of a connected socket's peer. 0 or -errno. */
int connection_peer(int fd, uid_t *uidp, pid_t *pidp);

#endif
