// SPDX-License-Identifier: Apache-2.0
/* GET /v1/models, GET /v1/models/NAME, and both without /v1 */
#include <string.h>

#include "gateway/endpoints/model_json.h"
#include "gateway/service/query.h"

/* ---- all models -------------------------------------------------------------------------------------------------- */

static int start_list(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp) {
    return coordgen_model_list_start(client, -1, query_on_event, query, request_idp);
}

static int take_list(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    json_t *list = json_array();

    for (size_t i = 0; i < coordgen_reply_n_models(reply); i++)
        json_array_append_new(list, model_json(coordgen_reply_model(reply, i)));
    exchange_reply_json(exchange, 200, json_pack("{ss, so}", "object", "list", "data", list));
    return 0;
}

void endpoint_models(Gateway *gateway, Exchange *exchange) {
    static const QueryOps ops = { .start = start_list, .take = take_list };

    query_run(gateway, exchange, &ops);
}

/* ---- one model --------------------------------------------------------------------------------------------------- */

typedef struct ShowRequest {
    const char *name;
} ShowRequest;

static int read_name(void *arg, const Exchange *exchange, const json_t *body, ApiError *error) {
    static const char front[] = "/models/";
    ShowRequest *request = arg;

    request->name = strstr(exchange_path(exchange), front) + strlen(front);
    return 0;
}

static int start_show(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp) {
    const ShowRequest *request = arg;

    return coordgen_model_show_start(client, request->name, -1, query_on_event, query, request_idp);
}

static int take_show(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    const CoordgenModel *model = coordgen_reply_model(reply, 0);

    exchange_reply_json(exchange, 200, model ? model_json(model) : NULL);
    return 0;
}

void endpoint_model(Gateway *gateway, Exchange *exchange) {
    static const QueryOps ops = {
        .arg_bytes = sizeof(ShowRequest), .read = read_name, .start = start_show, .take = take_show
    };

    query_run(gateway, exchange, &ops);
}
