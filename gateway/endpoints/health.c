// SPDX-License-Identifier: Apache-2.0
/* GET /health, /v1/health */
#include "gateway/endpoints/health.h"

#include "gateway/service/query.h"

static int unready(ApiError *error, const char *code, const char *message, const char *detail) {
    return api_error_set(error, 503, "unavailable_error", code, "%s%s", message, detail);
}

/* A model that is not loaded is no reason to refuse: the first request loads it. */
int health_check(const CoordgenModel *model, ApiError *error) {
    switch (model ? (int)model->state : 0) {
    case COORDGEN_MODEL_IMPORTING:
    case COORDGEN_MODEL_LOADING:
        return unready(error, "loading", "Loading model", ""); /* llama-server's words, which clients look for */
    case COORDGEN_MODEL_FAILED:
        return unready(error, "model_failed", "The default model has failed to load: ", model->detail);
    case 0:
        return unready(error, "no_model", "The service has no default model: coordgenctl model default NAME", "");
    default:
        return 0;
    }
}

static int start(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp) {
    return coordgen_model_default_start(client, NULL, -1, query_on_event, query, request_idp);
}

static int take(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    ApiError error;

    if (health_check(coordgen_reply_model(reply, 0), &error))
        exchange_refuse(exchange, &error);
    else
        exchange_reply_json(exchange, 200, json_pack("{ss}", "status", "ok"));
    return 0;
}

/* A service without any model says so by an error, which is a state here. */
static void refuse(void *arg, const ApiError *error, Exchange *exchange) {
    ApiError told = *error;

    if (error->status == 404)
        unready(&told, "no_model", error->message, "");
    exchange_refuse(exchange, &told);
}

void endpoint_health(Gateway *gateway, Exchange *exchange) {
    static const QueryOps ops = { .start = start, .take = take, .refuse = refuse };

    query_run(gateway, exchange, &ops);
}
