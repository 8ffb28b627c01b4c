// SPDX-License-Identifier: Apache-2.0
/* HTTP on listening sockets, by libmicrohttpd within the gateway's loop. Each request that has arrived whole is given
 * to a handler as an Exchange. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_HTTP_SERVER_H
#define COORDGEN_GATEWAY_HTTP_SERVER_H

#include <event2/event.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "gateway/http/exchange.h"
#include "gateway/http/http_limits.h"

enum {
    HTTP_SOCKETS_MAX = 8, /* listening */
};

typedef struct HttpServer HttpServer;

typedef struct HttpOps {
    /* Whether a request may go on, asked when its head is there; may set headers of the reply. 0, or API_E_REFUSED with
     * the reason. */
    int (*check)(void *arg, Exchange *exchange, ApiError *error);
    /* Answers a request, at once or later. */
    void (*handle)(void *arg, Exchange *exchange);
    /* Hears that the last connection has ended; may be NULL. */
    void (*on_empty)(void *arg);
} HttpOps;

typedef struct HttpCounts {
    unsigned int connections, requests; /* now */
    uint64_t all_connections, all_requests;
    uint64_t evicted_connections; /* closed to make room for another one */
    uint64_t refused_connections; /* there was no room */
    uint64_t refused_requests;    /* before a handler had them */
} HttpCounts;

/* Makes a server without sockets. ops and arg outlive it. 0 or -ENOMEM. */
int http_server_new(HttpServer **serverp, struct event_base *base, const HttpLimits *limits, const HttpOps *ops,
                    void *arg, ErrText *err);
/* Accepts clients of a listening socket, which the server owns from here on, even after a failure. At most
 * HTTP_SOCKETS_MAX. 0 or -ENOMEM. */
int http_server_listen(HttpServer *server, int fd);
/* Serves a connected socket, which the server owns from here on. */
void http_server_serve(HttpServer *server, int fd);
/* Closes the listening sockets and idle connections. Running requests go on, new ones are refused, and each connection
 * ends with its reply. on_empty() tells when all have ended, perhaps at once. */
void http_server_drain(HttpServer *server);
void http_server_counts(const HttpServer *server, HttpCounts *counts);
/* Ends all connections; their exchanges are gone. NULL is fine; returns NULL. */
HttpServer *http_server_free(HttpServer *server);
DEFINE_CLEANUP(HttpServer, http_server_free)

#endif
