// SPDX-License-Identifier: Apache-2.0
/* An HTTP exchange: a request that has arrived whole, and its reply. The server owns the exchange until its reply has
 * been sent or its client has gone. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_EXCHANGE_H
#define COORDGEN_GATEWAY_EXCHANGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "gateway/json/api_error.h"

typedef struct Exchange Exchange;

/* ---- the request; texts live as long as the exchange ------------------------------------------------------------- */

const char *exchange_method(const Exchange *exchange);
const char *exchange_path(const Exchange *exchange);                     /* without the query, percent signs resolved */
const char *exchange_query(const Exchange *exchange, const char *name);  /* NULL: the query has no such part */
const char *exchange_header(const Exchange *exchange, const char *name); /* NULL: there is none */
/* Whether the client came over a Unix socket. */
bool exchange_is_local(const Exchange *exchange);
/* Returns the body, which a NUL follows that is not counted. The body lives until the handler returns. */
const char *exchange_body(const Exchange *exchange, size_t *len_bytesp);

/* ---- a whole reply ----------------------------------------------------------------------------------------------- */

/* Adds a header to the reply, before the reply itself. */
void exchange_set_header(Exchange *exchange, const char *name, const char *value);
/* Replies with bytes, which are copied. The exchange belongs to the server again. */
void exchange_reply(Exchange *exchange, unsigned int status, const char *type, const void *data, size_t len_bytes);
/* Replies with a JSON value and releases it; NULL: out of memory, which is told as an error of the gateway. */
void exchange_reply_json(Exchange *exchange, unsigned int status, json_t *value);
/* Replies with an error in the form of OpenAI's, with Retry-After where the error has a time. */
void exchange_refuse(Exchange *exchange, const ApiError *error);

/* ---- a reply in pieces ------------------------------------------------------------------------------------------- */

/* Begins a reply of status 200 whose length is not known. */
void exchange_stream_begin(Exchange *exchange, const char *type);
/* Adds bytes to the reply. false: the client reads too slowly or memory is short; the reply ends broken off. */
bool exchange_stream_add(Exchange *exchange, const void *data, size_t len_bytes);
/* Lets so many more bytes wait for a client, for events that repeat at once what came in many. */
void exchange_stream_allow(Exchange *exchange, size_t len_bytes);
/* Ends the reply. The exchange belongs to the server again. */
void exchange_stream_end(Exchange *exchange);

/* ---- a client that goes ------------------------------------------------------------------------------------------ */

/* Calls fn once if the client goes, or stops reading, before the reply was ended. The exchange is gone after fn. */
void exchange_on_gone(Exchange *exchange, void (*fn)(void *arg), void *arg);

#endif
