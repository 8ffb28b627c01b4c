// SPDX-License-Identifier: Apache-2.0
/* HTTP on listening sockets, by libmicrohttpd within the gateway's loop. Each request that has arrived whole is given
 * to a handler as an Exchange. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_HTTP_SERVER_H
#define COORDGEN_GATEWAY_HTTP_SERVER_H

#include <event2/event.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "gateway/http/exchange.h"

typedef struct HttpServer HttpServer;

typedef struct HttpLimits {
    size_t body_bytes;        /* of a request's body */
    unsigned int connections; /* at a time */
    unsigned int idle_ms;     /* between requests of a connection, and for the headers of one */
    unsigned int body_ms;     /* for a body to arrive */
    size_t unread_bytes;      /* of a reply; then the client is disconnected */
} HttpLimits;

typedef struct HttpOps {
    /* Whether a request may go on, asked when its headers are there. 0, or API_E_REFUSED with the reason. */
    int (*check)(void *arg, const Exchange *exchange, ApiError *error);
    /* Answers a request, at once or later. */
    void (*handle)(void *arg, Exchange *exchange);
} HttpOps;

/* Makes a server without sockets. ops and arg outlive it. 0 or -ENOMEM. */
int http_server_new(HttpServer **serverp, struct event_base *base, const HttpLimits *limits, const HttpOps *ops,
                    void *arg, ErrText *err);
/* Accepts clients of a listening socket, which the server owns from here on, even after a failure. 0 or -ENOMEM. */
int http_server_listen(HttpServer *server, int fd);
/* Ends all connections; their exchanges are gone. NULL is fine; returns NULL. */
HttpServer *http_server_free(HttpServer *server);
DEFINE_CLEANUP(HttpServer, http_server_free)

#endif
