// SPDX-License-Identifier: Apache-2.0
/* What the server, its connections and their exchanges share. */
#ifndef COORDGEN_GATEWAY_HTTP_INTERNAL_H
#define COORDGEN_GATEWAY_HTTP_INTERNAL_H

#include <event2/event.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>

#include "base/min_max.h"
#include "base/queue.h"
#include "base/strings/str_buf.h"
#include "gateway/http/http_limits.h"

struct HttpServer;
typedef struct Exchange Exchange;

typedef struct HttpConnection {
    struct HttpServer *server;
    struct MHD_Connection *mhd;
    const HttpLimits *limits; /* the server's */
    struct event *wake;       /* the server's: runs libmicrohttpd soon */
    int fd;
    bool is_local;          /* over a Unix socket */
    bool is_gone;           /* the client has closed its side, or both */
    bool is_closing;        /* the server has closed it, to make room */
    bool is_refused;        /* the client may still send a body that nobody reads */
    bool has_begun;         /* a request's first line has arrived, and not its whole head */
    bool has_nul;           /* the path of the request has a NUL */
    struct event *deadline; /* for what the client has to send or to take next */
    struct event *activity; /* bytes have arrived, or the client has closed its side */
    Exchange *exchange;     /* NULL: between requests */
    bool is_waiting;        /* in the server's list of connections without a whole request */
    TAILQ_ENTRY(HttpConnection) waiting;
    LIST_ENTRY(HttpConnection) link;
} HttpConnection;

typedef enum ExchangeState {
    EXCHANGE_ARRIVING, /* the body is not whole */
    EXCHANGE_HANDLED,  /* the handler has it */
    EXCHANGE_STREAMS,  /* the handler adds to a reply */
    EXCHANGE_ENDED,    /* the reply is whole, and perhaps not sent */
    EXCHANGE_BROKEN,   /* the connection is to be closed */
} ExchangeState;

struct Exchange {
    HttpConnection *connection;
    char *method, *path;
    StrBuf body;
    ExchangeState state;
    struct MHD_Response *response; /* to be queued */
    unsigned int status;
    StrBuf out;           /* bytes of the reply that were not sent yet */
    size_t sent_bytes;    /* at the beginning of out */
    size_t allowed_bytes; /* of out, beyond HttpLimits.unread_bytes */
    json_t *headers;      /* of the reply: {name: value} */
    bool is_suspended, is_queued;
    bool is_counted; /* among the requests of HttpLimits */
    void (*gone)(void *arg);
    void *gone_arg;
};

enum {
    HTTP_GONE_MS = 1000, /* for what a client has sent before it closed its side, or still takes */
};

/* Sets the time that the client has for its next step; 0: no limit. libmicrohttpd may miss the end of a stream that
 * comes together with bytes, so a client that has closed its side has little time. */
static inline void http_connection_wait(HttpConnection *connection, unsigned int limit_ms) {
    const unsigned int ms = connection->is_gone ? MIN(limit_ms, (unsigned int)HTTP_GONE_MS) : limit_ms;
    const struct timeval wait = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

    if (ms)
        evtimer_add(connection->deadline, &wait);
    else
        evtimer_del(connection->deadline);
}

/* ---- exchange.c: for the server ---------------------------------------------------------------------------------- */

Exchange *exchange_new(HttpConnection *connection, const char *method, const char *path); /* NULL: no memory */
Exchange *exchange_free(Exchange *exchange); /* tells the handler, if it has not ended the reply */
/* Tells the handler that the client has gone, and closes the connection. */
void exchange_abandon(Exchange *exchange);
/* Gives the reply to the connection, or suspends the connection until there is one. */
enum MHD_Result exchange_continue(Exchange *exchange);

#endif
