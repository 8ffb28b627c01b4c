// SPDX-License-Identifier: Apache-2.0
/* The HTTP server: the bytes of a connection, as a client may send them, cut into pieces of odd lengths. The handler
 * replies at once or later, whole or in pieces. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/min_max.h"
#include "gateway/http/http_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

enum { /* bits of the first byte */
    FUZZ_LATER = 1,
    FUZZ_STREAM = 2,
    FUZZ_SHUTDOWN = 4, /* the client closes its side behind its bytes */
    FUZZ_FAR = 8,      /* the client closes without reading */
};

typedef struct Fuzz {
    struct event_base *base;
    HttpServer *server;
    unsigned int bits;
    Exchange *waiting; /* is to be answered; NULL: none */
} Fuzz;

static void on_gone(void *arg) {
    Fuzz *fuzz = arg;

    fuzz->waiting = NULL;
}

static void answer(Fuzz *fuzz, Exchange *exchange) {
    static const char piece[] = "data: piece\n\n";
    size_t len_bytes;
    const char *path = exchange_path(exchange), *name = exchange_query(exchange, "name");

    fuzz->waiting = NULL;
    if (!(fuzz->bits & FUZZ_STREAM)) {
        exchange_set_header(exchange, "X-Host", exchange_header(exchange, "Host") ? "yes" : "no");
        exchange_reply_json(
            exchange, 200, json_pack("{ss, ss?, ss}", "path", path, "name", name, "method", exchange_method(exchange)));
        return;
    }
    (void)exchange_body(exchange, &len_bytes);
    exchange_stream_begin(exchange, "text/event-stream");
    for (size_t i = 0; i < len_bytes % 5; i++)
        if (!exchange_stream_add(exchange, piece, sizeof(piece) - 1))
            return;
    exchange_stream_end(exchange);
}

static int check(void *arg, Exchange *exchange, ApiError *error) {
    return strcmp(exchange_path(exchange), "/no")
               ? 0
               : api_error_set(error, 401, "authentication_error", NULL, "refused: %s", exchange_method(exchange));
}

static void handle(void *arg, Exchange *exchange) {
    Fuzz *fuzz = arg;
    size_t len_bytes;
    const char *body = exchange_body(exchange, &len_bytes);

    if (body[len_bytes])
        abort(); /* a NUL follows the body */
    if (!(fuzz->bits & FUZZ_LATER)) {
        answer(fuzz, exchange);
        return;
    }
    exchange_on_gone(exchange, on_gone, fuzz);
    fuzz->waiting = exchange;
}

static void pump(Fuzz *fuzz, unsigned int n) {
    for (unsigned int i = 0; i < n; i++)
        event_base_loop(fuzz->base, EVLOOP_NONBLOCK);
    if (fuzz->waiting)
        answer(fuzz, fuzz->waiting);
}

static void read_away(int fd) {
    char data[4096];

    while (recv(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
        ;
}

static Fuzz *fuzz_get(void) {
    static const HttpOps ops = { .check = check, .handle = handle };
    static const HttpLimits limits = { .body_bytes = 4096,
                                       .bodies_bytes = 8192,
                                       .connections = 8,
                                       .requests = 8,
                                       .idle_ms = 600000,
                                       .head_ms = 600000,
                                       .body_ms = 600000,
                                       .stall_ms = 600000,
                                       .unread_bytes = 1 << 16 };
    static Fuzz fuzz;
    ErrText err;

    if (!fuzz.base)
        fuzz.base = event_base_new();
    if (!fuzz.base || (!fuzz.server && http_server_new(&fuzz.server, fuzz.base, &limits, &ops, &fuzz, &err)))
        abort();
    return &fuzz;
}

/* Bytes: what the handler and the client do, the length of the pieces (0: all at once), the connection. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    Fuzz *fuzz = fuzz_get();
    HttpCounts counts;
    int pair[2];
    size_t step_bytes;

    if (len_bytes < 2 || len_bytes > 1 << 16)
        return 0;
    fuzz->bits = data[0];
    step_bytes = data[1] ? data[1] : len_bytes;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        abort();
    http_server_serve(fuzz->server, pair[1]);
    for (size_t at = 2; at < len_bytes; at += step_bytes) {
        if (send(pair[0], data + at, MIN(step_bytes, len_bytes - at), MSG_NOSIGNAL) < 0)
            break;
        pump(fuzz, 2);
        if (!(fuzz->bits & FUZZ_FAR))
            read_away(pair[0]);
    }
    pump(fuzz, 4);
    if (fuzz->bits & FUZZ_SHUTDOWN)
        shutdown(pair[0], SHUT_WR);
    pump(fuzz, 4);
    close(pair[0]);
    /* Requests that came before the end are still read, one after the other. */
    for (size_t i = 0; i < len_bytes; i++) {
        pump(fuzz, 2);
        http_server_counts(fuzz->server, &counts);
        if (!counts.connections)
            break;
    }
    if (counts.connections || counts.requests || fuzz->waiting)
        abort(); /* something of the connection is left */
    return 0;
}
