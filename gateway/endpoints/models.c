// SPDX-License-Identifier: Apache-2.0
/* GET /v1/models, GET /health */
#include "base/strings/json_text.h"
#include "gateway/service/query.h"

static json_t *models_of(const CoordgenReply *reply, const void *arg) {
    json_t *list = json_array();

    for (size_t i = 0; i < coordgen_reply_n_models(reply); i++) {
        const CoordgenModel *model = coordgen_reply_model(reply, i);

        json_array_append_new(list, json_pack("{so, ss, si, ss}", "id", json_text(model->name), "object", "model",
                                              "created", 0, "owned_by", "coordgen"));
    }
    return json_pack("{ss, so}", "object", "list", "data", list);
}

void endpoint_models(Gateway *gateway, Exchange *exchange) {
    CoordgenClient *client;
    uint64_t id = 0;
    Query *query = query_new(gateway, exchange, models_of, NULL, &client);
    int r;

    if (!query)
        return;
    r = coordgen_model_list_start(client, -1, query_on_event, query, &id);
    query_started(query, r, id);
}

void endpoint_health(Gateway *gateway, Exchange *exchange) {
    exchange_reply_json(exchange, 200, json_pack("{ss}", "status", "ok"));
}
