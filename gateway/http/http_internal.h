// SPDX-License-Identifier: Apache-2.0
/* What the server, its connections and their exchanges share. */
#ifndef COORDGEN_GATEWAY_HTTP_INTERNAL_H
#define COORDGEN_GATEWAY_HTTP_INTERNAL_H

#include <microhttpd.h>

#include "base/queue.h"
#include "base/strings/str_buf.h"
#include "gateway/http/http_server.h"

typedef struct HttpConnection {
    HttpServer *server;
    struct MHD_Connection *mhd;
    int fd;
    struct event *hangup;   /* the client has closed its side */
    struct event *deadline; /* for the next request, or the rest of one */
    Exchange *exchange;     /* NULL: between requests */
    LIST_ENTRY(HttpConnection) link;
} HttpConnection;

struct HttpServer {
    struct MHD_Daemon *mhd;
    struct event_base *base;
    struct event *arrival, *timeout;
    const HttpOps *ops;
    void *arg;
    HttpLimits limits;
    struct {
        struct event *event;
        int fd;
    } sockets[4];
    size_t n_sockets;
    LIST_HEAD(, HttpConnection) connections;
    unsigned int n_connections;
};

typedef enum ExchangeState {
    EXCHANGE_ARRIVING, /* the body is not whole */
    EXCHANGE_HANDLED,  /* the handler has it; the connection is suspended */
    EXCHANGE_STREAMS,  /* the handler adds to a reply */
    EXCHANGE_ENDED,    /* the reply is whole */
    EXCHANGE_BROKEN,   /* the connection is to be closed */
} ExchangeState;

struct Exchange {
    HttpConnection *connection;
    char *method, *path;
    StrBuf body;
    ExchangeState state;
    struct MHD_Response *response; /* to be queued */
    unsigned int status;
    StrBuf out;      /* bytes of a stream that were not sent yet */
    size_t sent;     /* bytes at the beginning of out that were */
    json_t *headers; /* of the reply: {name: value} */
    bool is_suspended, is_queued;
    void (*gone)(void *arg);
    void *gone_arg;
};

/* exchange.c: for the server */
Exchange *exchange_new(HttpConnection *connection, const char *method, const char *path); /* NULL: no memory */
Exchange *exchange_free(Exchange *exchange); /* tells the handler, if it has not ended the reply */
/* Tells the handler that the client has gone, and lets the connection end. */
void exchange_abandon(Exchange *exchange);
/* Gives the reply to the connection, or suspends it until there is one. */
enum MHD_Result exchange_continue(Exchange *exchange);

/* http_server.c: runs the server soon */
void http_server_wake(HttpServer *server);

#endif
