// SPDX-License-Identifier: Apache-2.0
/* Short requests to the service that an exchange waits for: one, or several, each after the reply to the one before.
 * Thread: the loop. */
#ifndef COORDGEN_GATEWAY_QUERY_H
#define COORDGEN_GATEWAY_QUERY_H

#include "gateway/gateway.h"

typedef struct Query Query;

enum {
    QUERY_MORE = 1, /* of take(): start() makes the next request */
};

/* Names a field of the service's requests, "text" of "tokenize.text", as the HTTP request does. */
typedef struct QueryField {
    const char *service, *http;
} QueryField;

/* What an endpoint does. arg is the query's own room of arg_bytes, zero at first. */
typedef struct QueryOps {
    size_t arg_bytes;
    bool takes_body;     /* the exchange has a JSON body */
    size_t model_offset; /* of the model's name in arg, a const char *, plus 1; 0: there is none */
    /* Reads the HTTP request. body: NULL without takes_body; else lives as long as arg. 0 or API_E_REFUSED. NULL:
     * there is nothing to read. */
    int (*read)(void *arg, const Exchange *exchange, const json_t *body, ApiError *error);
    /* Sends a request by a _start() function, with query_on_event and the query. Returns the function's result. */
    int (*start)(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp);
    /* Takes a reply that is no error. Answers the exchange and returns 0, or returns QUERY_MORE. */
    int (*take)(void *arg, const CoordgenReply *reply, Exchange *exchange);
    /* Answers the exchange with an error of the service. NULL: the error is answered as it is. */
    void (*refuse)(void *arg, const ApiError *error, Exchange *exchange);
    /* Names the field of an error as the HTTP request does. NULL: by the table of fields. */
    void (*rename)(void *arg, ApiError *error);
    /* Releases what arg holds. NULL: it holds nothing. */
    void (*deinit)(void *arg);
    const QueryField *fields; /* [n_fields]; a field that is not listed has the same name in both */
    size_t n_fields;
} QueryOps;

/* Runs a query, which answers the exchange in any case. ops outlive the query. */
void query_run(Gateway *gateway, Exchange *exchange, const QueryOps *ops);
/* Takes the events of a query's request; the argument of the _start() functions. */
int query_on_event(void *query, const CoordgenEvent *event);

/* Names the field of a service's error as the HTTP request does, in param and at the beginning of the message. */
void query_rename_field(ApiError *error, const QueryField *fields, size_t n_fields);

#endif
