// SPDX-License-Identifier: Apache-2.0
/* A short request to the service, with one reply, that an exchange waits for. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_QUERY_H
#define COORDGEN_GATEWAY_QUERY_H

#include "gateway/gateway.h"

/* Makes the body of the HTTP reply. NULL: out of memory. arg: what query_begin() got. */
typedef json_t *QueryAnswerFn(const CoordgenReply *reply, const void *arg);

typedef struct Query Query;

/* Makes a query and finds its client. NULL: the exchange is answered with the error. arg is freed by free() with the
 * query, even if there is none. */
Query *query_new(Gateway *gateway, Exchange *exchange, QueryAnswerFn *answer, void *arg, CoordgenClient **clientp);
/* Goes on with a query after its _start() function, whose callback was query_on_event and whose arg the query. code:
 * the function's result. */
void query_started(Query *query, int code, uint64_t request_id);
int query_on_event(void *arg, const CoordgenEvent *event);

#endif
