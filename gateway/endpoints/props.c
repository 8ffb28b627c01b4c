// SPDX-License-Identifier: Apache-2.0
/* GET /props: the default model, or that of the query's "model", as llama-server tells it. GET /slots is refused. */
#include <stdio.h>

#include "base/strings/json_text.h"
#include "gateway/plain/sampling_json.h"
#include "gateway/service/query.h"

typedef struct PropsRequest {
    const char *model;           /* valid while the request is started */
    const char *service_version; /* the client's */
} PropsRequest;

static int read_query(void *arg, const Exchange *exchange, const json_t *body, ApiError *error) {
    PropsRequest *request = arg;

    request->model = exchange_query(exchange, "model");
    return 0;
}

static int start(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp) {
    PropsRequest *request = arg;

    request->service_version = coordgen_client_service_version(client);
    return coordgen_model_show_start(client, request->model, -1, query_on_event, query, request_idp);
}

static json_t *settings_of(const CoordgenModel *model, const CoordgenSamplingDefaults *sampling) {
    json_t *settings = json_pack("{sI}", "n_ctx", (json_int_t)model->usable_context_tokens);

    if (sampling)
        json_object_set_new(settings, "params", sampling_defaults_json(sampling));
    return settings;
}

static json_t *props_of(const PropsRequest *request, const CoordgenReply *reply) {
    const CoordgenModel *model = coordgen_reply_model(reply, 0);
    json_t *props =
        json_pack("{so, s{sb, sb}}", "model_alias", json_text(model->name), "modalities", "vision", 0, "audio", 0);
    size_t len_bytes;
    const char *chat_template = coordgen_reply_chat_template(reply, &len_bytes);
    char build_info[96];

    snprintf(build_info, sizeof(build_info), "coordgen %s", request->service_version);
    json_object_set_new(props, "build_info", json_text(build_info));
    json_object_set_new(props, "endpoint_slots", json_false());
    json_object_set_new(props, "endpoint_props", json_false());
    json_object_set_new(props, "endpoint_metrics", json_true());
    if (*model->path)
        json_object_set_new(props, "model_path", json_text(model->path));
    if (model->state == COORDGEN_MODEL_READY)
        json_object_set_new(props, "default_generation_settings",
                            settings_of(model, coordgen_reply_sampling_defaults(reply)));
    if (chat_template)
        json_object_set_new(props, "chat_template", json_text_n(chat_template, len_bytes));
    return props;
}

static int take(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    exchange_reply_json(exchange, 200, coordgen_reply_model(reply, 0) ? props_of(arg, reply) : NULL);
    return 0;
}

void endpoint_props(Gateway *gateway, Exchange *exchange) {
    static const QueryOps ops = { .arg_bytes = sizeof(PropsRequest), .read = read_query, .start = start, .take = take };

    query_run(gateway, exchange, &ops);
}

/* Refuses what the service does not have, with llama-server's status for a part that is turned off. */
void endpoint_unsupported(Gateway *gateway, Exchange *exchange) {
    ApiError error;

    api_error_set(&error, 501, "not_supported_error", "not_supported",
                  "%s is not supported: the service has no slots, and settings are made in coordgend.conf",
                  exchange_path(exchange));
    exchange_refuse(exchange, &error);
}
