// SPDX-License-Identifier: Apache-2.0
#include "gateway/service/query.h"

struct Query {
    Gateway *gateway;
    Exchange *exchange; /* NULL: the client has gone */
    CoordgenClient *client;
    uint64_t request_id;
    QueryAnswerFn *answer;
    void *arg;
};

static void query_free(Query *query) {
    free(query->arg);
    free(query);
}

static void on_gone(void *arg) {
    Query *query = arg;

    query->exchange = NULL;
    (void)coordgen_cancel(query->client, query->request_id);
    link_settle(query->gateway->link);
}

Query *query_new(Gateway *gateway, Exchange *exchange, QueryAnswerFn *answer, void *arg, CoordgenClient **clientp) {
    Query *query = calloc(1, sizeof(*query));
    ApiError error;

    if (!query) {
        free(arg);
        api_error_no_memory(&error);
        exchange_refuse(exchange, &error);
        return NULL;
    }
    *query = (Query){ .gateway = gateway, .exchange = exchange, .answer = answer, .arg = arg };
    if (link_client(gateway->link, &query->client, &error)) {
        exchange_refuse(exchange, &error);
        query_free(query);
        return NULL;
    }
    *clientp = query->client;
    return query;
}

void query_started(Query *query, int code, uint64_t request_id) {
    ApiError error;

    if (!code) {
        query->request_id = request_id;
        exchange_on_gone(query->exchange, on_gone, query);
        link_settle(query->gateway->link);
        return;
    }
    api_error_of_service(&error, code, coordgen_client_message(query->client), coordgen_client_field(query->client),
                         coordgen_client_retry_after_ms(query->client));
    exchange_refuse(query->exchange, &error);
    query_free(query);
}

int query_on_event(void *arg, const CoordgenEvent *event) {
    Query *query = arg;
    const CoordgenReply *reply = event->reply;
    ApiError error;

    if (event->kind != COORDGEN_EVENT_END)
        return 0;
    if (query->exchange && coordgen_reply_error(reply)) {
        api_error_of_service(&error, coordgen_reply_error(reply), coordgen_reply_message(reply),
                             coordgen_reply_field(reply), coordgen_reply_retry_after_ms(reply));
        exchange_refuse(query->exchange, &error);
    } else if (query->exchange) {
        exchange_reply_json(query->exchange, 200, query->answer(reply, query->arg));
    }
    query_free(query);
    return 0;
}
