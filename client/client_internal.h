// SPDX-License-Identifier: Apache-2.0
/* Inside of libcoordgen-client: the connection, the requests in flight on it, and what they end with. */
#ifndef COORDGEN_CLIENT_CLIENT_INTERNAL_H
#define COORDGEN_CLIENT_CLIENT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/strings/str_buf.h"
#include "client/coordgen-client.h"
#include "proto/frame.h"

#define CLIENT_OUT_BYTES_MAX (16u << 20) /* requests that wait to be sent */

/* Why something failed. */
typedef struct ClientFailure {
    int code;
    uint32_t retry_after_ms;
    char field[128];
    ErrText err;
} ClientFailure;

typedef enum RequestKind {
    REQUEST_HELLO,
    REQUEST_CANCEL,
    REQUEST_GENERATE, /* from here on: the user's */
    REQUEST_TOKENIZE,
    REQUEST_DETOKENIZE,
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
    struct ClientRequest *next; /* under the lock */
    uint64_t id;                /* const */
    RequestKind kind;           /* const */
    CoordgenEventFn *fn;        /* const; may be NULL */
    void *arg;                  /* const */
    uint64_t deadline_ns;       /* const; UINT64_MAX: none */
    bool cancel_sent;           /* under the lock */
    StrBuf text;                /* owner thread: of a generation, so far */
    uint64_t n_deltas;          /* owner thread */
} ClientRequest;

typedef enum ClientState {
    CLIENT_NEW,
    CLIENT_CONNECTED,
    CLIENT_DEAD,
} ClientState;

struct CoordgenClient {
    pthread_mutex_t lock;
    /* under the lock: what coordgen_cancel() of another thread touches */
    ClientState state;
    int socket_fd;
    int epoll_fd; /* holds the socket: its interest in writing changes while another thread waits for it */
    bool want_out;
    bool out_broken; /* the peer takes nothing any more; what it sent before is still read */
    StrBuf out;
    size_t out_at_bytes;
    int out_fd; /* goes with the frame at these places of out; -1: none waits */
    size_t out_fd_begin_bytes, out_fd_end_bytes;
    ClientRequest *requests;
    uint64_t next_id;

    /* owner thread */
    pid_t pid;
    bool in_dispatch;
    bool greeted;
    FrameReader reader;
    ClientFailure failure; /* of the last call that failed */
    char name[65];
    char socket_path[512];
    char service_version[64];
};

typedef struct ClientExplanation {
    CoordgenExplanation explanation;
    CoordgenDraftSource *sources;
    const CoordgenDraftSource **source_list;
} ClientExplanation;

struct CoordgenReply {
    _Atomic unsigned n_refs;
    ClientFailure failure;
    RequestKind kind;
    Coordgen__V1__Response *response; /* NULL: the request ended without one */
    StrBuf text;
    CoordgenGenerateResult generate;
    CoordgenSamplingOrigins sampling_origins; /* of it */
    CoordgenStatus status;
    CoordgenModel *models;
    size_t n_models;
    CoordgenModelPair *model_pairs; /* what the reply is about, or behind each other those of the models */
    size_t n_model_pairs;           /* that it is about */
    CoordgenMemory *memory;
    size_t n_memory;
    CoordgenRequestInfo *requests;
    size_t n_requests;
    ClientExplanation *explanations; /* of the requests, or of the generation */
    size_t n_explanations;
    CoordgenFile *files;
    size_t n_files;
    CoordgenFileSystem *file_systems;
    size_t n_file_systems;
    CoordgenDraftDb draft_db;
    CoordgenDraftDbUser *draft_db_users;
    size_t n_draft_db_users;
};

DEFINE_CLEANUP(CoordgenReply, coordgen_reply_unref)

/* client.c */
int client_fail(CoordgenClient *client, int code, const char *field, uint32_t retry_after_ms, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
int client_check_usable(CoordgenClient *client, bool waits);

/* client_connection.c: the lock is held for *_locked. */
int client_connection_open(CoordgenClient *client, const char *socket_path, uint64_t deadline_ns);
int client_connection_adopt(CoordgenClient *client, int fd);
void client_connection_close(CoordgenClient *client);
void client_flush_locked(CoordgenClient *client);
/* Packs, checks and queues a request, and sends what the socket takes. fd: goes with it, and stays the caller's; -1:
 * none. 0 or a CoordgenError with failure filled in. */
int client_send_locked(CoordgenClient *client, Coordgen__V1__Request *message, int fd, ClientFailure *failure);

/* client_dispatch.c */
ClientRequest *client_request_free(ClientRequest *request);
int client_connection_fail(CoordgenClient *client, const ClientFailure *failure);

/* client_request.c */
int client_start(CoordgenClient *client, RequestKind kind, Coordgen__V1__Request *message, int timeout_ms,
                 CoordgenEventFn *fn, void *arg, uint64_t *request_idp);
int client_start_file(CoordgenClient *client, RequestKind kind, Coordgen__V1__Request *message, int fd, int timeout_ms,
                      CoordgenEventFn *fn, void *arg, uint64_t *request_idp);

/* client_request.c: copies what the caller's version of a structure of options has; first_bytes: of the first version.
 * 0 or a CoordgenError. */
int client_options_copy(CoordgenClient *client, void *to, size_t to_bytes, const void *from, size_t first_bytes);

/* client_pair.c: what it holds of a pair; from NULL: nothing. false: no memory. */
void client_pair_fill(CoordgenModelPair *to, const Coordgen__V1__ModelPair *from);
bool client_pairs_fill(CoordgenReply *reply, Coordgen__V1__ModelPair *const *pairs, size_t n);

/* client_files.c: what a reply that tells of files holds; false: no memory. */
bool client_files_fill(CoordgenReply *reply, const Coordgen__V1__FilesReply *files);

/* client_draftdb.c: what a reply of the draft database holds; false: no memory. */
bool client_draft_db_fill(CoordgenReply *reply);

/* client_reply.c: takes text and response over; the reply has one reference. NULL: no memory. */
CoordgenReply *client_reply_new(RequestKind kind, const ClientFailure *failure, Coordgen__V1__Response **responsep,
                                StrBuf *text);
/* client_reply_requests.c: false: no memory; what is there is given back with the reply. */
bool client_requests_fill(CoordgenReply *reply, Coordgen__V1__RequestInfo *const *requests, size_t n);
bool client_explanation_fill(CoordgenReply *reply, const Coordgen__V1__Explanation *explanation); /* the only one */
void client_requests_deinit(CoordgenReply *reply);
bool client_reply_holds(const CoordgenReply *reply, Coordgen__V1__Response__OpCase op);
void client_failure_from_wire(ClientFailure *failure, const Coordgen__V1__Error *error);

#endif
