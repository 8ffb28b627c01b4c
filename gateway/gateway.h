// SPDX-License-Identifier: Apache-2.0
/* The gateway: HTTP requests in, requests to the service out. Thread: the loop. */
#ifndef COORDGEN_GATEWAY_GATEWAY_H
#define COORDGEN_GATEWAY_GATEWAY_H

#include <event2/event.h>

#include "gateway/access/access.h"
#include "gateway/http/http_server.h"
#include "gateway/service/link.h"

typedef struct Gateway {
    struct event_base *base;
    HttpServer *http;
    Link *link;
    Access access;
    void (*on_empty)(void *arg); /* the last connection has ended; may be NULL */
    void *on_empty_arg;
    bool takes_any_model; /* a name of no model means the default one */
} Gateway;

typedef struct Route {
    const char *method;
    const char *path; /* "/front/" and a star: any path that goes on behind the front */
    void (*handle)(Gateway *gateway, Exchange *exchange);
    bool is_public; /* no token is asked for, as at llama-server */
} Route;

/* Handlers of endpoints, in gateway/endpoints. Each answers at once or later. "plain": llama-server's own form. */
void endpoint_apply_template(Gateway *gateway, Exchange *exchange);
void endpoint_chat_completions(Gateway *gateway, Exchange *exchange);
void endpoint_chat_tokens(Gateway *gateway, Exchange *exchange);
void endpoint_completions(Gateway *gateway, Exchange *exchange);
void endpoint_detokenize(Gateway *gateway, Exchange *exchange);
void endpoint_embeddings(Gateway *gateway, Exchange *exchange);
void endpoint_health(Gateway *gateway, Exchange *exchange);
void endpoint_infill(Gateway *gateway, Exchange *exchange);
void endpoint_metrics(Gateway *gateway, Exchange *exchange);
void endpoint_model(Gateway *gateway, Exchange *exchange);
void endpoint_models(Gateway *gateway, Exchange *exchange);
void endpoint_page(Gateway *gateway, Exchange *exchange);
void endpoint_plain_completion(Gateway *gateway, Exchange *exchange);
void endpoint_plain_embeddings(Gateway *gateway, Exchange *exchange);
void endpoint_props(Gateway *gateway, Exchange *exchange);
void endpoint_response_input_tokens(Gateway *gateway, Exchange *exchange);
void endpoint_responses(Gateway *gateway, Exchange *exchange);
void endpoint_tokenize(Gateway *gateway, Exchange *exchange);
void endpoint_unsupported(Gateway *gateway, Exchange *exchange);

extern const HttpOps gateway_ops; /* their arg is a Gateway */

#endif
