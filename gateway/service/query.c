// SPDX-License-Identifier: Apache-2.0
#include "gateway/service/query.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/strings/utf8.h"
#include "gateway/json/body.h"

struct Query {
    Gateway *gateway;
    Exchange *exchange; /* NULL: the client has gone */
    CoordgenClient *client;
    uint64_t request_id;
    const QueryOps *ops;
    json_t *body;
    max_align_t arg[]; /* ops->arg_bytes */
};

static void query_free(Query *query) {
    if (query->ops->deinit)
        query->ops->deinit(query->arg);
    json_decref(query->body);
    free(query);
}

static void on_gone(void *arg) {
    Query *query = arg;

    query->exchange = NULL;
    (void)coordgen_cancel(query->client, query->request_id);
    link_settle(query->gateway->link);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Replaces the first n_bytes of a text. */
static void replace_front(char *text, size_t room_bytes, size_t n_bytes, const char *with) {
    char whole[sizeof(((ApiError *)0)->message)];

    snprintf(whole, sizeof(whole), "%s%s", with, text + n_bytes);
    snprintf(text, room_bytes, "%.*s", UTF8_PREFIX(whole, room_bytes - 1));
}

void query_rename_field(ApiError *error, const QueryField *fields, size_t n_fields) {
    const char *name = strchr(error->param, '.');
    const char *with = NULL;
    size_t name_bytes, old_bytes;
    char old[sizeof(error->param)];

    if (!name++)
        return;
    name_bytes = strcspn(name, "[.");
    for (size_t i = 0; i < n_fields && !with; i++)
        if (strlen(fields[i].service) == name_bytes && !memcmp(fields[i].service, name, name_bytes))
            with = fields[i].http;
    /* An unlisted field loses the name of the operation only. */
    old_bytes = with ? (size_t)(name - error->param) + name_bytes : (size_t)(name - error->param);
    snprintf(old, sizeof(old), "%.*s", (int)old_bytes, error->param);
    replace_front(error->param, sizeof(error->param), old_bytes, with ? with : "");
    if (!strncmp(error->message, old, old_bytes))
        replace_front(error->message, sizeof(error->message), old_bytes, with ? with : "");
}

static void refuse(Query *query, ApiError *error) {
    if (query->ops->rename)
        query->ops->rename(query->arg, error);
    else
        query_rename_field(error, query->ops->fields, query->ops->n_fields);
    if (query->ops->refuse)
        query->ops->refuse(query->arg, error, query->exchange);
    else
        exchange_refuse(query->exchange, error);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Sends the next request. Without one the exchange is answered and the query is gone. */
static void start(Query *query) {
    ApiError error;

    if (!link_client(query->gateway->link, &query->client, &error)) {
        if (!query->ops->start(query->arg, query->client, query, &query->request_id)) {
            exchange_on_gone(query->exchange, on_gone, query);
            link_settle(query->gateway->link);
            return;
        }
        api_error_of_service(&error, coordgen_client_error(query->client), coordgen_client_message(query->client),
                             coordgen_client_field(query->client), coordgen_client_retry_after_ms(query->client));
    }
    refuse(query, &error);
    query_free(query);
}

/* Reads the HTTP request. 0 or API_E_REFUSED. */
static int read_request(Query *query, ApiError *error) {
    if (query->ops->takes_body) {
        query->body = body_parse(query->exchange, error);
        if (!query->body)
            return API_E_REFUSED;
    }
    return query->ops->read ? query->ops->read(query->arg, query->exchange, query->body, error) : 0;
}

void query_run(Gateway *gateway, Exchange *exchange, const QueryOps *ops) {
    Query *query = calloc(1, sizeof(*query) + ops->arg_bytes);
    ApiError error;

    if (!query) {
        api_error_no_memory(&error);
        exchange_refuse(exchange, &error);
        return;
    }
    query->gateway = gateway;
    query->exchange = exchange;
    query->ops = ops;
    if (!read_request(query, &error)) {
        start(query);
        return;
    }
    exchange_refuse(exchange, &error);
    query_free(query);
}

/* Whether the model's name, which the service does not know, means the default model, and has been taken out. */
static bool forgets_model(Query *query, const CoordgenReply *reply) {
    const size_t offset = query->ops->model_offset;
    const char **namep = offset ? (const char **)((char *)query->arg + offset - 1) : NULL;

    if (coordgen_reply_error(reply) != COORDGEN_E_MODEL_NOT_FOUND || !query->gateway->takes_any_model || !namep ||
        !*namep)
        return false;
    *namep = NULL;
    return true;
}

int query_on_event(void *arg, const CoordgenEvent *event) {
    Query *query = arg;
    const CoordgenReply *reply = event->reply;
    ApiError error;

    if (event->kind != COORDGEN_EVENT_END)
        return 0;
    if (query->exchange && forgets_model(query, reply)) {
        start(query);
        return 0;
    }
    if (query->exchange && coordgen_reply_error(reply)) {
        api_error_of_service(&error, coordgen_reply_error(reply), coordgen_reply_message(reply),
                             coordgen_reply_field(reply), coordgen_reply_retry_after_ms(reply));
        error.n_prompt_tokens = coordgen_reply_too_long(reply, &error.n_context_tokens);
        refuse(query, &error);
    } else if (query->exchange && query->ops->take(query->arg, reply, query->exchange) == QUERY_MORE) {
        start(query);
        return 0;
    }
    query_free(query);
    return 0;
}
