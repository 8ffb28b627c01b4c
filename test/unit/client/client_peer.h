// SPDX-License-Identifier: Apache-2.0
/* The service's side of a connection for tests: a thread that reads requests and answers by a script. */
#ifndef COORDGEN_TEST_UNIT_CLIENT_PEER_H
#define COORDGEN_TEST_UNIT_CLIENT_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "client/coordgen-client.h"
#include "proto/frame.h"

typedef struct Peer Peer;
typedef void PeerScript(Peer *peer);

struct Peer {
    int fd;
    PeerScript *script;
    FrameReader reader;
    pthread_t thread;
    int client_fd;          /* the other end, until the client takes it */
    _Atomic int n_requests; /* requests that the script has read */
    _Atomic bool done;      /* the client's side lets the script continue */
};

#define RESPONSE(name, op, member, value)                                                                              \
    Coordgen__V1__Response name = COORDGEN__V1__RESPONSE__INIT;                                                        \
    name.op_case = COORDGEN__V1__RESPONSE__OP_##op;                                                                    \
    name.member = (value)

/* Returns the next request, or NULL if the client has hung up. After an invalid message the peer hangs up, which the
 * test notices; cmocka's asserts belong to its main thread. */
Coordgen__V1__Request *peer_next(Peer *peer);
void peer_write(Peer *peer, const void *data, size_t len_bytes);
void peer_send(Peer *peer, Coordgen__V1__Response *response, uint64_t request_id);
bool peer_hello(Peer *peer); /* reads the greeting and answers it as service version 9.9.9 */
/* Sends a delta; its token is 40 + sequence. */
void peer_delta(Peer *peer, uint64_t id, uint64_t sequence, const char *text, size_t len_bytes);
void peer_done(Peer *peer, uint64_t id, Coordgen__V1__EndReason reason, uint64_t n_deltas);
void peer_error(Peer *peer, uint64_t id, int code, const char *text, const char *field, uint32_t retry_ms);
void peer_cancel_reply(Peer *peer, uint64_t id);
void peer_status(Peer *peer, uint64_t id);

/* Runs the script on peer->fd, then ends the stream. */
void *peer_main(void *peer);
void peer_start(Peer *peer, PeerScript *script);
/* Makes a client that is connected to a peer with this script. */
CoordgenClient *peer_connect(Peer *peer, PeerScript *script);
void peer_end(Peer *peer, CoordgenClient *client); /* frees the client, joins the thread */

/* --- scripts that several programs use --- */
void peer_play_nothing(Peer *peer); /* waits for done without sending anything */
/* Answers three requests with three errors: BUSY, an unknown code, a code of the library's own. */
void peer_play_errors(Peer *peer);
/* Sends no answer until the cancel; then a late answer; then one status. */
void peer_play_silence(Peer *peer);

/* --- events of a request --- */
typedef struct Seen {
    CoordgenClient *client;
    char text[256];
    size_t text_bytes;
    unsigned n_deltas;
    unsigned n_tokens;
    unsigned n_progress;
    unsigned n_ends;
    int error;
    int end_reason;
    char message[128];
    bool cancel; /* by the return value */
} Seen;

/* Event callback; fails the test if events are inconsistent. */
int seen_add(void *seen, const CoordgenEvent *event);

/* Fills options of a request with only this prompt. */
void peer_options(CoordgenGenerateOptions *options, const char *prompt);

#endif
