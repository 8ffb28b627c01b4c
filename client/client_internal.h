// SPDX-License-Identifier: Apache-2.0
/* The inside of libcoordgen-client: the connection and the requests in flight. */
#ifndef COORDGEN_CLIENT_CLIENT_INTERNAL_H
#define COORDGEN_CLIENT_CLIENT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/strings/str_buf.h"
#include "client/answer/client_choices.h"
#include "client/coordgen-client.h"
#include "proto/frame.h"

#define CLIENT_OUT_BYTES_MAX (16u << 20) /* of requests that wait to be sent */

/* Why a call or a request failed. */
typedef struct ClientFailure {
    int code;
    uint32_t retry_after_ms;
    char field[128];
    ErrText err;
    uint32_t prompt_tokens, context_tokens; /* COORDGEN_E_CONTEXT_FULL: both counts; 0: unknown */
} ClientFailure;

typedef enum RequestKind {
    REQUEST_HELLO,
    REQUEST_CANCEL,
    REQUEST_GENERATE, /* this and later kinds are the user's; the library sends the earlier ones */
    REQUEST_TOKENIZE,
    REQUEST_DETOKENIZE,
    REQUEST_EMBED,
    REQUEST_STATUS,
    REQUEST_MODEL_LIST,
    REQUEST_MODEL_SHOW,
    REQUEST_MODEL_LOAD,
    REQUEST_MODEL_UNLOAD,
    REQUEST_MODEL_PAIR,
    REQUEST_MODEL_PAIR_LIST,
    REQUEST_MODEL_DEFAULT,
    REQUEST_SESSION_OPEN,
    REQUEST_SESSION_FORK,
    REQUEST_SESSION_CLOSE,
    REQUEST_LIST,
    REQUEST_EXPLAIN,
    REQUEST_CANCEL_NUMBER,
    REQUEST_MODEL_REMOVE,
    REQUEST_DISK,
    REQUEST_PRUNE,
    REQUEST_DRAFT_DB_STATS,
    REQUEST_DRAFT_DB_FORGET,
    REQUEST_DRAFT_DB_FREEZE,
    REQUEST_DRAFT_DB_EXPORT,
    REQUEST_DRAFT_DB_IMPORT,
    _REQUEST_KIND_N,
} RequestKind;

typedef struct ClientRequest {
    struct ClientRequest *next; /* guarded by the lock */
    uint64_t id;                /* const */
    RequestKind kind;           /* const */
    CoordgenEventFn *fn;        /* const; may be NULL */
    void *arg;                  /* const */
    uint64_t deadline_ns;       /* const; UINT64_MAX: none */
    bool cancel_sent;           /* guarded by the lock */
    ClientAnswer answer;        /* owner thread; of a generation, so far */
    ClientChoices choices;      /* owner thread; further answers */
    uint64_t n_deltas;          /* Used by the owner thread alone: */
} ClientRequest;

typedef enum ClientState {
    CLIENT_NEW,
    CLIENT_CONNECTED,
    CLIENT_DEAD,
} ClientState;

/* Frames that wait to be sent. */
typedef struct ClientOutput {
    StrBuf bytes;
    size_t at_bytes; /* sent of these */
    bool is_wanted;  /* the socket is watched for room */
    bool is_broken;  /* the peer accepts nothing more; its earlier answers are still read */
    int fd;          /* sent with the frame between these places of bytes; -1: none */
    size_t fd_begin_bytes, fd_end_bytes;
} ClientOutput;

struct CoordgenClient {
    pthread_mutex_t lock;
    /* Guarded by the lock, because coordgen_cancel() of another thread uses it: */
    ClientState state;
    int socket_fd;
    int epoll_fd; /* holds the socket: its interest in writing changes while another thread waits for it */
    ClientOutput out;
    ClientRequest *requests;
    uint64_t next_id;

    /* Used by the owner thread alone: */
    pid_t pid;
    bool in_dispatch;
    bool greeted;
    FrameReader reader;
    ClientFailure failure; /* of the last call that failed */
    char name[65];
    char socket_path[512];
    char service_version[64];
};

/* client_failure.c */
/* Remembers the failure of a call of the owner thread, and returns its code. */
int client_fail(CoordgenClient *client, int code, const char *field, uint32_t retry_after_ms, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Refuses a call after fork(), and a call that waits (`waits`) inside a callback. */
int client_check_usable(CoordgenClient *client, bool waits);
void client_failure_from_wire(ClientFailure *failure, const Coordgen__V1__Error *error);

/* client_options.c */
int client_options_copy(CoordgenClient *client, void *to, size_t to_bytes, const void *from, size_t first_bytes);

/* client_table.c; the functions take the lock. */
ClientRequest *client_request_free(ClientRequest *request);
ClientRequest *client_table_find(CoordgenClient *client, uint64_t id);
/* Whether a request of this id was ever sent; ids are given in order, by any thread that cancels too. */
bool client_table_was_sent(CoordgenClient *client, uint64_t id);
/* Removes the request from the table: no other thread sees it from here on. */
void client_table_unlink(CoordgenClient *client, ClientRequest *request);

/* client_connection.c; the caller of a *_locked function holds the lock. */
int client_connection_open(CoordgenClient *client, const char *socket_path, uint64_t deadline_ns);
int client_connection_adopt(CoordgenClient *client, int fd);
void client_connection_close(CoordgenClient *client);
void client_flush_locked(CoordgenClient *client);
/* Packs, checks and queues a request, and sends as much as the socket takes. fd: sent with the request, stays the
 * caller's; -1: none. 0, or a CoordgenError with failure filled in. */
int client_send_locked(CoordgenClient *client, Coordgen__V1__Request *message, int fd, ClientFailure *failure);

/* Drops const for protobuf-c, which takes texts as char * and only reads them. */
static inline char *client_text(const char *text) {
    return (char *)(uintptr_t)text;
}

/* client_start.c */
int client_start(CoordgenClient *client, RequestKind kind, Coordgen__V1__Request *message, int timeout_ms,
                 CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
int client_start_file(CoordgenClient *client, RequestKind kind, Coordgen__V1__Request *message, int fd, int timeout_ms,
                      CoordgenEventFn *fn, void *arg, uint64_t *request_idp);

/* client_dispatch.c */
/* Ends the connection and every request on it. Returns the failure's code. */
int client_connection_fail(CoordgenClient *client, const ClientFailure *failure);

#endif
