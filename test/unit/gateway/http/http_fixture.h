// SPDX-License-Identifier: Apache-2.0
/* An HTTP server on one end of a socket pair, whose handler is the test's. */
#ifndef COORDGEN_TEST_HTTP_FIXTURE_H
#define COORDGEN_TEST_HTTP_FIXTURE_H

#include <stdbool.h>

#include "base/strings/str_buf.h"
#include "gateway/http/http_server.h"

typedef struct HttpFixture {
    struct event_base *base;
    HttpServer *server;
    void (*handle)(struct HttpFixture *fixture, Exchange *exchange); /* NULL: the exchange is kept below */
    Exchange *exchange;                                              /* the last one that was handled */
    unsigned int n_handled, n_empty;
    void *arg; /* the test's */
} HttpFixture;

extern const HttpLimits http_fixture_limits; /* roomy ones */

void http_fixture_init(HttpFixture *fixture, const HttpLimits *limits);
void http_fixture_deinit(HttpFixture *fixture);
/* Connects a client. Returns the client's socket, which does not block. */
int http_fixture_connect(HttpFixture *fixture);
/* Runs the loop until nothing is left to do at once. */
void http_fixture_pump(HttpFixture *fixture);
/* Sends text and runs the loop. */
void http_fixture_send(HttpFixture *fixture, int fd, const char *text);
/* Reads what has come. Returns whether the connection has ended. */
bool http_fixture_read(int fd, StrBuf *text);
/* Runs the loop until the connection has ended. */
void http_fixture_read_all(HttpFixture *fixture, int fd, StrBuf *text);

#endif
