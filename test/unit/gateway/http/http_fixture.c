// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/gateway/http/http_fixture.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

enum {
    PUMPS = 8, /* a request takes its steps through two descriptors and a timer */
};

const HttpLimits http_fixture_limits = {
    .body_bytes = 1 << 16,
    .bodies_bytes = 1 << 20,
    .connections = 64,
    .requests = 64,
    .idle_ms = 600000,
    .head_ms = 600000,
    .body_ms = 600000,
    .stall_ms = 600000,
    .unread_bytes = 1 << 20,
};

static int check(void *arg, Exchange *exchange, ApiError *error) {
    return 0;
}

static void handle(void *arg, Exchange *exchange) {
    HttpFixture *fixture = arg;

    fixture->n_handled++;
    fixture->exchange = exchange;
    if (fixture->handle)
        fixture->handle(fixture, exchange);
}

static void on_empty(void *arg) {
    HttpFixture *fixture = arg;

    fixture->n_empty++;
}

void http_fixture_init(HttpFixture *fixture, const HttpLimits *limits) {
    static const HttpOps ops = { .check = check, .handle = handle, .on_empty = on_empty };
    ErrText err;
    int r;

    fixture->base = event_base_new();
    assert(fixture->base);
    r = http_server_new(&fixture->server, fixture->base, limits, &ops, fixture, &err);
    assert(!r);
    (void)r;
}

void http_fixture_deinit(HttpFixture *fixture) {
    fixture->server = http_server_free(fixture->server);
    event_base_free(fixture->base);
    fixture->base = NULL;
}

int http_fixture_connect(HttpFixture *fixture) {
    int pair[2], r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair);

    assert(!r);
    (void)r;
    http_server_serve(fixture->server, pair[1]);
    http_fixture_pump(fixture);
    return pair[0];
}

void http_fixture_pump(HttpFixture *fixture) {
    for (int i = 0; i < PUMPS; i++)
        event_base_loop(fixture->base, EVLOOP_NONBLOCK);
}

void http_fixture_send(HttpFixture *fixture, int fd, const char *text) {
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
    http_fixture_pump(fixture);
}

bool http_fixture_read(int fd, StrBuf *text) {
    char data[4096];
    ssize_t n;

    while ((n = recv(fd, data, sizeof(data), MSG_DONTWAIT)) > 0)
        str_buf_append(text, data, (size_t)n);
    return n == 0 || errno != EAGAIN;
}

void http_fixture_read_all(HttpFixture *fixture, int fd, StrBuf *text) {
    while (!http_fixture_read(fd, text))
        event_base_loop(fixture->base, EVLOOP_ONCE);
}
