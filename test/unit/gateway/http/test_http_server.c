// SPDX-License-Identifier: Apache-2.0
/* The HTTP server's limits: heads that are refused, bodies, connections, requests, time, clients that read nothing, and
 * the end. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/unit/gateway/http/http_fixture.h"

#define HOST "Host: x\r\n"
#define GET "GET /x HTTP/1.1\r\n" HOST "\r\n"

static void reply(HttpFixture *fixture, Exchange *exchange) {
    size_t len_bytes;
    const char *body = exchange_body(exchange, &len_bytes);

    exchange_reply(exchange, 200, "text/plain", body, len_bytes);
}

/* Whether the text begins with that status of HTTP/1.1. */
static bool has_status(const StrBuf *text, unsigned int status) {
    char expected[16];

    snprintf(expected, sizeof(expected), "HTTP/1.1 %u ", status);
    return text->data && !strncmp(text->data, expected, strlen(expected));
}

static void test_http_server_heads(void **state) {
    static const struct {
        const char *text;
        unsigned int status;
    } rows[] = {
        { GET, 200 },
        { "GET /x HTTP/1.1\r\n\r\n", 400 }, /* no Host */
        { "GET /x HTTP/1.1\r\n" HOST "Host: y\r\n\r\n", 400 },
        { "GET /x%00y HTTP/1.1\r\n" HOST "\r\n", 400 },
        { "GET /x?y=%00 HTTP/1.1\r\n" HOST "\r\n", 400 },
        { "GET /%ff HTTP/1.1\r\n" HOST "\r\n", 400 },
        { "GET /x?%c0%80=1 HTTP/1.1\r\n" HOST "\r\n", 400 },
        { "GET /x?y=%c3%a9 HTTP/1.1\r\n" HOST "\r\n", 200 },
        { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", 200 },
        { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400 },
        { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400 },
        { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
        { "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          400 },
        { "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501 },
        { "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200 },
        { "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", 400 },
        { "POST /x HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400 },
        { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 0x3\r\n\r\nabc", 400 },
        { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 65537\r\n\r\n", 413 },
        { "POST /x HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999999999\r\n\r\n", 413 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        HttpFixture fixture = { .handle = reply };
        StrBuf text = STR_BUF_NULL;
        int fd;

        http_fixture_init(&fixture, &http_fixture_limits);
        fd = http_fixture_connect(&fixture);
        http_fixture_send(&fixture, fd, rows[i].text);
        http_fixture_read(fd, &text);
        if (!has_status(&text, rows[i].status))
            fail_msg("%s: %s instead of %u", rows[i].text, text.data ? text.data : "nothing", rows[i].status);
        assert_int_equal(fixture.n_handled, rows[i].status == 200);
        str_buf_deinit(&text);
        close(fd);
        http_fixture_deinit(&fixture);
    }
}

/* A request that is refused before its end takes the connection with it: what follows is not read as a request. */
static void test_http_server_nothing_is_smuggled(void **state) {
    HttpFixture fixture = { .handle = reply };
    StrBuf text = STR_BUF_NULL;
    int fd;

    http_fixture_init(&fixture, &http_fixture_limits);
    fd = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, fd,
                      "POST /x HTTP/1.1\r\n" HOST
                      "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET);
    http_fixture_read_all(&fixture, fd, &text);
    assert_true(has_status(&text, 400));
    assert_null(strstr(text.data + 1, "HTTP/1.1 "));
    assert_int_equal(fixture.n_handled, 0);
    str_buf_deinit(&text);
    close(fd);
    http_fixture_deinit(&fixture);
}

static void test_http_server_long_bodies(void **state) {
    HttpFixture fixture = { .handle = reply };
    HttpLimits limits = http_fixture_limits;
    char chunk[1 << 12];
    StrBuf text = STR_BUF_NULL;
    HttpCounts counts;
    int fd;

    limits.body_bytes = 10000;
    memset(chunk, 'a', sizeof(chunk) - 1);
    chunk[sizeof(chunk) - 1] = 0;
    http_fixture_init(&fixture, &limits);
    fd = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, fd, "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 4; i++) { /* no length says how much will come */
        http_fixture_send(&fixture, fd, "fff\r\n");
        http_fixture_send(&fixture, fd, chunk);
        http_fixture_send(&fixture, fd, "\r\n");
    }
    http_fixture_send(&fixture, fd, "0\r\n\r\n");
    http_fixture_read(fd, &text);
    assert_true(has_status(&text, 413));
    assert_non_null(strstr(text.data, "10000"));
    assert_int_equal(fixture.n_handled, 0);
    http_server_counts(fixture.server, &counts);
    assert_int_equal(counts.refused_requests, 1);
    str_buf_deinit(&text);
    close(fd);
    http_fixture_deinit(&fixture);
}

/* All bodies together have a limit too, and what a request took is given back when its handler returns. */
static void test_http_server_bodies_together(void **state) {
    HttpFixture fixture = { 0 };
    HttpLimits limits = http_fixture_limits;
    StrBuf text = STR_BUF_NULL;
    int first, second;

    limits.bodies_bytes = 5;
    http_fixture_init(&fixture, &limits);
    first = http_fixture_connect(&fixture);
    second = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, first, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nabc");
    http_fixture_send(&fixture, second, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc");
    http_fixture_read(second, &text);
    assert_true(has_status(&text, 503));
    assert_non_null(strstr(text.data, "Retry-After: 1"));
    http_fixture_send(&fixture, first, "d");
    assert_int_equal(fixture.n_handled, 1); /* and goes on */
    close(second);
    second = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, second, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc");
    assert_int_equal(fixture.n_handled, 2);
    str_buf_deinit(&text);
    close(first);
    close(second);
    http_fixture_deinit(&fixture);
}

static void test_http_server_connections(void **state) {
    HttpFixture fixture = { 0 };
    HttpLimits limits = http_fixture_limits;
    StrBuf text = STR_BUF_NULL;
    HttpCounts counts;
    int fds[4];

    limits.connections = 3;
    http_fixture_init(&fixture, &limits);
    for (int i = 0; i < 3; i++)
        fds[i] = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, fds[0], GET); /* busy from now on */
    fds[3] = http_fixture_connect(&fixture);
    http_fixture_pump(&fixture);
    assert_false(http_fixture_read(fds[0], &text));
    assert_true(http_fixture_read(fds[1], &text)); /* the one that waited longest has made room */
    assert_false(http_fixture_read(fds[2], &text));
    http_fixture_send(&fixture, fds[2], GET);
    http_fixture_send(&fixture, fds[3], GET);
    assert_int_equal(fixture.n_handled, 3);
    close(fds[1]);
    fds[1] = http_fixture_connect(&fixture); /* nobody waits: there is no room */
    http_fixture_read(fds[1], &text);
    assert_true(has_status(&text, 503));
    http_server_counts(fixture.server, &counts);
    assert_int_equal(counts.connections, 3);
    assert_int_equal(counts.requests, 3);
    assert_int_equal(counts.evicted_connections, 1);
    assert_int_equal(counts.refused_connections, 1);
    str_buf_deinit(&text);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    http_fixture_pump(&fixture);
    http_server_counts(fixture.server, &counts);
    assert_int_equal(counts.connections, 0);
    assert_int_equal(counts.requests, 0);
    assert_int_equal(fixture.n_empty, 1);
    http_fixture_deinit(&fixture);
}

static void test_http_server_requests(void **state) {
    HttpFixture fixture = { 0 };
    HttpLimits limits = http_fixture_limits;
    StrBuf text = STR_BUF_NULL;
    int fds[2];

    limits.requests = 1;
    http_fixture_init(&fixture, &limits);
    for (int i = 0; i < 2; i++) {
        fds[i] = http_fixture_connect(&fixture);
        http_fixture_send(&fixture, fds[i], GET);
    }
    assert_false(http_fixture_read(fds[1], &text));
    assert_true(has_status(&text, 503));
    assert_int_equal(fixture.n_handled, 1);
    exchange_reply(fixture.exchange, 200, "text/plain", "", 0);
    http_fixture_pump(&fixture);
    str_buf_truncate(&text, 0);
    http_fixture_send(&fixture, fds[1], GET); /* on the same connection */
    assert_int_equal(fixture.n_handled, 2);
    str_buf_deinit(&text);
    close(fds[0]);
    close(fds[1]);
    http_fixture_deinit(&fixture);
}

/* Each limit of time ends a connection that does not keep it; the others are far away. */
static void test_http_server_time(void **state) {
    static const struct {
        size_t limit;
        const char *text, *reply; /* reply NULL: the machine may be too slow for one */
    } rows[] = {
        { offsetof(HttpLimits, idle_ms), "", "" },
        { offsetof(HttpLimits, idle_ms), "GET /", "" },
        { offsetof(HttpLimits, head_ms), "GET /x HTTP/1.1\r\nHos", "HTTP/1.1 408 " },
        { offsetof(HttpLimits, body_ms), "POST /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\na", "HTTP/1.1 408 " },
        { offsetof(HttpLimits, body_ms), "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\n",
          "HTTP/1.1 408 " },
        { offsetof(HttpLimits, idle_ms), GET, NULL }, /* no second request */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        HttpFixture fixture = { .handle = reply };
        HttpLimits limits = http_fixture_limits;
        StrBuf text = STR_BUF_NULL;
        int fd;

        *(unsigned int *)((char *)&limits + rows[i].limit) = 30;
        http_fixture_init(&fixture, &limits);
        fd = http_fixture_connect(&fixture);
        http_fixture_send(&fixture, fd, rows[i].text);
        http_fixture_read_all(&fixture, fd, &text);
        if (rows[i].reply) {
            assert_int_equal(strncmp(text.data ? text.data : "", rows[i].reply, strlen(rows[i].reply)), 0);
            assert_int_equal(text.len_bytes != 0, *rows[i].reply != 0);
        }
        str_buf_deinit(&text);
        close(fd);
        http_fixture_deinit(&fixture);
    }
}

static void reply_much(HttpFixture *fixture, Exchange *exchange) {
    static char data[8 << 20];

    exchange_reply(exchange, 200, "text/plain", data, sizeof(data));
}

/* A client that takes nothing of a whole reply is disconnected; one that takes all has all. */
static void test_http_server_stalled_reader(void **state) {
    HttpFixture fixture = { .handle = reply_much };
    HttpLimits limits = http_fixture_limits;
    StrBuf text = STR_BUF_NULL;
    HttpCounts counts;
    int fd;

    limits.stall_ms = 30;
    http_fixture_init(&fixture, &limits);
    fd = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, fd, GET);
    do {
        event_base_loop(fixture.base, EVLOOP_ONCE);
        http_server_counts(fixture.server, &counts);
    } while (counts.connections);
    close(fd);
    http_fixture_deinit(&fixture);

    fixture = (HttpFixture){ .handle = reply_much };
    http_fixture_init(&fixture, &http_fixture_limits);
    fd = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, fd, "GET /x HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    http_fixture_read_all(&fixture, fd, &text);
    assert_true(text.len_bytes > 8 << 20);
    str_buf_deinit(&text);
    close(fd);
    http_fixture_deinit(&fixture);
}

static void count_gone(void *arg) {
    ++*(unsigned int *)arg;
}

/* A stream whose client reads nothing ends when its bytes are too many. The handler learns it by the result. */
static void test_http_server_unread_stream(void **state) {
    HttpFixture fixture = { 0 };
    static char data[64 << 10];
    unsigned int n_gone = 0;
    HttpCounts counts;
    bool goes_on = true;
    int fd;

    http_fixture_init(&fixture, &http_fixture_limits);
    fd = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, fd, GET);
    exchange_on_gone(fixture.exchange, count_gone, &n_gone);
    exchange_stream_begin(fixture.exchange, "text/plain");
    for (int i = 0; goes_on; i++) {
        assert_true(i < 1000);
        goes_on = exchange_stream_add(fixture.exchange, data, sizeof(data));
        http_fixture_pump(&fixture);
    }
    assert_int_equal(n_gone, 0);
    http_server_counts(fixture.server, &counts);
    assert_int_equal(counts.connections, 0);
    close(fd);
    http_fixture_deinit(&fixture);
}

/* A client that closes its socket with unread bytes resets the connection, which no end of the stream tells. */
static void test_http_server_reset(void **state) {
    HttpFixture fixture = { 0 };
    unsigned int n_gone = 0;
    int fd;

    http_fixture_init(&fixture, &http_fixture_limits);
    fd = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, fd, GET);
    exchange_on_gone(fixture.exchange, count_gone, &n_gone);
    exchange_stream_begin(fixture.exchange, "text/plain");
    assert_true(exchange_stream_add(fixture.exchange, "piece", 5));
    http_fixture_pump(&fixture);
    close(fd); /* the head and the piece are there, unread */
    http_fixture_pump(&fixture);
    assert_int_equal(n_gone, 1);
    http_fixture_deinit(&fixture);
}

/* A reply that ends its connection, given later: the connection is closed at once, whatever its client does. */
static void test_http_server_reply_ends_connection(void **state) {
    for (size_t n_pieces = 0; n_pieces < 2; n_pieces++) {
        HttpFixture fixture = { 0 };
        StrBuf text = STR_BUF_NULL;
        HttpCounts counts;
        int fd;

        http_fixture_init(&fixture, &http_fixture_limits);
        fd = http_fixture_connect(&fixture);
        http_fixture_send(&fixture, fd, "GET /x HTTP/1.0\r\n\r\n");
        exchange_stream_begin(fixture.exchange, "text/plain");
        for (size_t i = 0; i < n_pieces; i++)
            assert_true(exchange_stream_add(fixture.exchange, "piece", 5));
        exchange_stream_end(fixture.exchange);
        http_fixture_pump(&fixture);
        assert_true(http_fixture_read(fd, &text));
        http_server_counts(fixture.server, &counts);
        assert_int_equal(counts.connections, 0);
        assert_int_equal(fixture.n_empty, 1);
        str_buf_deinit(&text);
        close(fd);
        http_fixture_deinit(&fixture);
    }
}

static void reply_much_once(HttpFixture *fixture, Exchange *exchange) {
    if (fixture->n_handled == 1)
        reply_much(fixture, exchange);
    else
        exchange_on_gone(exchange, count_gone, fixture->arg);
}

/* A client that has closed its side while a reply went out is gone for the next request, which came before. */
static void test_http_server_gone_before_request(void **state) {
    unsigned int n_gone = 0;
    HttpFixture fixture = { .handle = reply_much_once, .arg = &n_gone };
    StrBuf text = STR_BUF_NULL;
    int fd;

    http_fixture_init(&fixture, &http_fixture_limits);
    fd = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, fd, GET GET);
    shutdown(fd, SHUT_WR);
    http_fixture_pump(&fixture);
    assert_int_equal(fixture.n_handled, 1); /* the client takes nothing of the first reply yet */
    for (int i = 0; i < 10000 && !n_gone; i++) {
        http_fixture_read(fd, &text);
        http_fixture_pump(&fixture);
    }
    assert_int_equal(fixture.n_handled, 2);
    assert_int_equal(n_gone, 1);
    http_fixture_read_all(&fixture, fd, &text);
    assert_true(text.len_bytes > 8 << 20); /* the first reply is whole */
    str_buf_deinit(&text);
    close(fd);
    http_fixture_deinit(&fixture);
}

/* Bytes and the end of the stream that come together: libmicrohttpd reads the bytes only. */
static void test_http_server_half_closed(void **state) {
    static const char *const rows[] = { "", "\r\n\r\n", "GET /x HTTP/1.1\r\n",
                                        "POST /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\na" };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        HttpFixture fixture = { 0 };
        StrBuf text = STR_BUF_NULL;
        int fd;

        http_fixture_init(&fixture, &http_fixture_limits);
        fd = http_fixture_connect(&fixture);
        (void)!send(fd, rows[i], strlen(rows[i]), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        http_fixture_read_all(&fixture, fd, &text); /* the limits of time are far away */
        assert_int_equal(fixture.n_handled, 0);
        str_buf_deinit(&text);
        close(fd);
        http_fixture_deinit(&fixture);
    }
}

static void test_http_server_drain(void **state) {
    HttpFixture fixture = { 0 };
    StrBuf text = STR_BUF_NULL;
    int idle, busy, late;

    http_fixture_init(&fixture, &http_fixture_limits);
    idle = http_fixture_connect(&fixture);
    busy = http_fixture_connect(&fixture);
    late = http_fixture_connect(&fixture);
    http_fixture_send(&fixture, busy, GET);
    http_fixture_send(&fixture, late, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n");
    http_server_drain(fixture.server);
    http_fixture_pump(&fixture);
    assert_true(http_fixture_read(idle, &text));
    assert_false(http_fixture_read(busy, &text));
    http_fixture_send(&fixture, late, "a"); /* had begun to arrive before */
    assert_int_equal(fixture.n_handled, 2);
    exchange_reply(fixture.exchange, 200, "text/plain", "late", 4);
    http_fixture_pump(&fixture);
    assert_true(http_fixture_read(late, &text));
    assert_non_null(strstr(text.data, "late"));
    assert_int_equal(fixture.n_empty, 0);
    close(busy); /* its client goes */
    http_fixture_pump(&fixture);
    assert_int_equal(fixture.n_empty, 1);
    str_buf_deinit(&text);
    close(idle);
    close(late);
    http_fixture_deinit(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http_server_heads),
        cmocka_unit_test(test_http_server_nothing_is_smuggled),
        cmocka_unit_test(test_http_server_long_bodies),
        cmocka_unit_test(test_http_server_bodies_together),
        cmocka_unit_test(test_http_server_connections),
        cmocka_unit_test(test_http_server_requests),
        cmocka_unit_test(test_http_server_time),
        cmocka_unit_test(test_http_server_stalled_reader),
        cmocka_unit_test(test_http_server_unread_stream),
        cmocka_unit_test(test_http_server_reset),
        cmocka_unit_test(test_http_server_reply_ends_connection),
        cmocka_unit_test(test_http_server_gone_before_request),
        cmocka_unit_test(test_http_server_half_closed),
        cmocka_unit_test(test_http_server_drain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
