// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#define _GNU_SOURCE
#include "test/unit/client/client_peer.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "proto/proto_check.h"

Coordgen__V1__Request *peer_next(Peer *peer) {
    for (;;) {
        Coordgen__V1__Request *request = NULL;
        const uint8_t *body;
        size_t len_bytes;
        uint8_t *room;
        ssize_t n;
        FrameFault fault;

        if (!frame_reader_next(&peer->reader, &body, &len_bytes, NULL)) {
            if (frame_decode_request(body, len_bytes, &request, &fault) || proto_check_request(request, &fault)) {
                frame_request_free(request);
                shutdown(peer->fd, SHUT_RDWR);
                return NULL;
            }
            atomic_fetch_add(&peer->n_requests, 1);
            return request;
        }
        if (frame_reader_room(&peer->reader, 4096, &room, &len_bytes))
            return NULL;
        n = read(peer->fd, room, len_bytes);
        if (n <= 0)
            return NULL;
        frame_reader_filled(&peer->reader, (size_t)n);
    }
}

void peer_write(Peer *peer, const void *data, size_t len_bytes) {
    const char *at = data;

    while (len_bytes) {
        ssize_t n = send(peer->fd, at, len_bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        at += n;
        len_bytes -= (size_t)n;
    }
}

void peer_send(Peer *peer, Coordgen__V1__Response *response, uint64_t request_id) {
    _cleanup_(freep) uint8_t *frame = NULL;
    size_t len_bytes;

    response->has_request_id = true;
    response->request_id = request_id;
    if (!frame_encode(&response->base, &frame, &len_bytes, NULL))
        peer_write(peer, frame, len_bytes);
}

bool peer_hello(Peer *peer) {
    static char version[] = "9.9.9";
    Coordgen__V1__HelloReply hello = COORDGEN__V1__HELLO_REPLY__INIT;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = peer_next(peer);

    if (!request || request->op_case != COORDGEN__V1__REQUEST__OP_HELLO)
        return false;
    hello.has_version = true;
    hello.version = 1;
    hello.service_version = version;
    RESPONSE(response, HELLO, hello, &hello);
    peer_send(peer, &response, request->request_id);
    return true;
}

void peer_delta(Peer *peer, uint64_t id, uint64_t sequence, const char *text, size_t len_bytes) {
    Coordgen__V1__GenerateDelta delta = COORDGEN__V1__GENERATE_DELTA__INIT;
    uint32_t token = 40 + (uint32_t)sequence;

    delta.has_sequence = delta.has_text = true;
    delta.sequence = sequence;
    delta.text = (ProtobufCBinaryData){ .data = (uint8_t *)(uintptr_t)text, .len = len_bytes };
    delta.n_tokens = 1;
    delta.tokens = &token;
    RESPONSE(response, GENERATE_DELTA, generate_delta, &delta);
    peer_send(peer, &response, id);
}

void peer_done(Peer *peer, uint64_t id, Coordgen__V1__EndReason reason, uint64_t n_deltas) {
    static char model[] = "tiny";
    Coordgen__V1__GenerateDone done = COORDGEN__V1__GENERATE_DONE__INIT;
    Coordgen__V1__Usage usage = COORDGEN__V1__USAGE__INIT;
    Coordgen__V1__Timings timings = COORDGEN__V1__TIMINGS__INIT;

    usage.has_prompt_tokens = usage.has_output_tokens = usage.has_cached_tokens = true;
    usage.prompt_tokens = 11;
    usage.output_tokens = (uint32_t)n_deltas;
    usage.cached_tokens = 3;
    timings.has_prefill_us = timings.has_decode_us = true;
    timings.prefill_us = 1000;
    timings.decode_us = 2000;
    done.has_end_reason = done.has_deltas = done.has_seed = true;
    done.end_reason = reason;
    done.deltas = n_deltas;
    done.seed = UINT64_MAX;
    done.usage = &usage;
    done.timings = &timings;
    done.model = model;
    RESPONSE(response, GENERATE_DONE, generate_done, &done);
    peer_send(peer, &response, id);
}

void peer_error(Peer *peer, uint64_t id, int code, const char *text, const char *field, uint32_t retry_ms) {
    Coordgen__V1__Error error = COORDGEN__V1__ERROR__INIT;

    error.has_code = error.has_retry_after_ms = true;
    error.code = (Coordgen__V1__ErrorCode)code;
    error.message = (char *)(uintptr_t)text;
    error.field = (char *)(uintptr_t)field;
    error.retry_after_ms = retry_ms;
    RESPONSE(response, ERROR, error, &error);
    peer_send(peer, &response, id);
}

void peer_cancel_reply(Peer *peer, uint64_t id) {
    Coordgen__V1__CancelReply reply = COORDGEN__V1__CANCEL_REPLY__INIT;
    RESPONSE(response, CANCEL, cancel, &reply);
    peer_send(peer, &response, id);
}

void peer_status(Peer *peer, uint64_t id) {
    static char name[] = "kv", isa[] = "scalar";
    Coordgen__V1__StatusReply status = COORDGEN__V1__STATUS_REPLY__INIT;
    Coordgen__V1__MemoryAccount memory = COORDGEN__V1__MEMORY_ACCOUNT__INIT;
    Coordgen__V1__MemoryAccount *list[] = { &memory };

    memory.name = name;
    memory.has_used_bytes = true;
    memory.used_bytes = UINT64_C(1) << 40;
    status.n_memory = 1;
    status.memory = list;
    status.isa = isa;
    status.has_pid = true;
    status.pid = 77;
    RESPONSE(response, STATUS, status, &status);
    peer_send(peer, &response, id);
}

void *peer_main(void *arg) {
    Peer *peer = arg;

    peer->script(peer);
    shutdown(peer->fd, SHUT_WR);
    while (!atomic_load(&peer->done) && read(peer->fd, (char[64]){ 0 }, 64) > 0)
        ; /* avoids that a close resets the last written bytes */
    frame_reader_deinit(&peer->reader);
    close(peer->fd);
    return NULL;
}

void peer_start(Peer *peer, PeerScript *script) {
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    *peer = (Peer){ .fd = pair[0], .client_fd = pair[1], .script = script };
    assert_int_equal(pthread_create(&peer->thread, NULL, peer_main, peer), 0);
}

CoordgenClient *peer_connect(Peer *peer, PeerScript *script) {
    CoordgenClient *client = NULL;

    peer_start(peer, script);
    assert_int_equal(coordgen_client_new(&client), 0);
    assert_int_equal(coordgen_client_connect_fd(client, steal_fd(&peer->client_fd), 5000), 0);
    assert_string_equal(coordgen_client_service_version(client), "9.9.9");
    return client;
}

void peer_end(Peer *peer, CoordgenClient *client) {
    coordgen_client_free(client);
    atomic_store(&peer->done, true);
    assert_int_equal(pthread_join(peer->thread, NULL), 0);
}

/* --- scripts that several programs use ---------------------------------------------------------------------------- */

void peer_play_nothing(Peer *peer) {
    while (!atomic_load(&peer->done))
        poll(NULL, 0, 1);
}

void peer_play_errors(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *first = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *second = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *third = NULL;

    if (!peer_hello(peer) || !(first = peer_next(peer)))
        return;
    peer_error(peer, first->request_id, 5, "the queue is full", NULL, 250);
    if (!(second = peer_next(peer)))
        return;
    peer_error(peer, second->request_id, 4711, NULL, "generate.model", 0);
    if (!(third = peer_next(peer)))
        return;
    peer_error(peer, third->request_id, 101, "a code of the library's own must not come from outside", NULL, 0);
}

void peer_play_silence(Peer *peer) {
    _cleanup_(frame_request_freep) Coordgen__V1__Request *request = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *cancel = NULL;
    _cleanup_(frame_request_freep) Coordgen__V1__Request *status = NULL;

    if (!peer_hello(peer) || !(request = peer_next(peer)) || !(cancel = peer_next(peer)) ||
        cancel->op_case != COORDGEN__V1__REQUEST__OP_CANCEL)
        return;
    peer_delta(peer, request->request_id, 0, "late", 4); /* its request is over for the client */
    peer_done(peer, request->request_id, COORDGEN__V1__END_REASON__END_REASON_CANCELLED, 1);
    peer_cancel_reply(peer, cancel->request_id);
    if ((status = peer_next(peer)) && status->op_case == COORDGEN__V1__REQUEST__OP_STATUS)
        peer_status(peer, status->request_id);
}

/* --- events of a request
 * -------------------------------------------------------------------------------------------- */

int seen_add(void *arg, const CoordgenEvent *event) {
    Seen *seen = arg;

    switch (event->kind) {
    case COORDGEN_EVENT_PROGRESS:
        seen->n_progress++;
        break;
    case COORDGEN_EVENT_DELTA:
        assert_true(seen->text_bytes + event->text_bytes < sizeof(seen->text));
        assert_int_equal(event->text[event->text_bytes], 0);
        memcpy(seen->text + seen->text_bytes, event->text, event->text_bytes);
        seen->text_bytes += event->text_bytes;
        assert_int_equal(event->tokens[0], 40 + seen->n_deltas);
        seen->n_deltas++;
        seen->n_tokens += (unsigned)event->n_tokens;
        break;
    case COORDGEN_EVENT_END:
        seen->n_ends++;
        seen->error = coordgen_reply_error(event->reply);
        snprintf(seen->message, sizeof(seen->message), "%s", coordgen_reply_message(event->reply));
        if (coordgen_reply_generate(event->reply))
            seen->end_reason = coordgen_reply_generate(event->reply)->end_reason;
        break;
    }
    return seen->cancel;
}

void peer_options(CoordgenGenerateOptions *options, const char *prompt) {
    coordgen_generate_options_init(options);
    options->prompt = prompt;
}
