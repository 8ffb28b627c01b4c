// SPDX-License-Identifier: Apache-2.0
/* Connections of the server: who waits for what, and for how long. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_HTTP_CONNECTION_H
#define COORDGEN_GATEWAY_HTTP_CONNECTION_H

#include "gateway/http/http_internal.h"

TAILQ_HEAD(HttpWaiting, HttpConnection);

/* Makes a connection that waits for its first request. NULL: out of memory. */
HttpConnection *http_connection_new(struct event_base *base, struct MHD_Connection *mhd, const HttpLimits *limits,
                                    struct event *wake);
HttpConnection *http_connection_free(HttpConnection *connection); /* NULL is fine; returns NULL */
/* Puts the connection behind all that wait for the rest of a request. */
void http_connection_await(HttpConnection *connection, struct HttpWaiting *waiting);
void http_connection_stop_waiting(HttpConnection *connection, struct HttpWaiting *waiting);

#endif
