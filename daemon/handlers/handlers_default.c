// SPDX-License-Identifier: Apache-2.0
/* The default model: asked for by everybody, chosen by administrators. */
#include <string.h>

#include "base/log.h"
#include "base/strings/printable.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/models/model_message.h"
#include "daemon/net/reply.h"

/* Sends the model, or the name of one that is not there. */
static void send_default(Peer *peer, uint64_t request_id, const Model *model) {
    ModelRegistry *registry = &peer->service->models;
    Coordgen__V1__ModelDefaultReply reply = COORDGEN__V1__MODEL_DEFAULT_REPLY__INIT;
    Coordgen__V1__Response response;
    ModelMessage entry;

    if (model) {
        model_describe(&entry, model, peer->may_administer);
    } else {
        coordgen__v1__model__init(&entry.model);
        entry.model.name = (char *)(uintptr_t)model_default_name(registry->def);
        entry.model.has_default_by = true;
        entry.model.default_by = (Coordgen__V1__ModelDefaultBy)model_default_by(registry->def);
    }
    reply_init(&response, request_id);
    reply.model = &entry.model;
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_DEFAULT;
    response.model_default = &reply;
    connection_send(peer->connection, &response);
}

/* Stores the choice; if that fails, the error is sent. */
static bool set_default(Peer *peer, uint64_t request_id, const Model *model) {
    ModelDefault *def = &peer->service->def;
    ErrText err = { .text = "out of memory" };
    int r;

    if (model->source.origin == MODEL_FROM_CLIENT) {
        connection_send_error(
            peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
            "model_default.model",
            "%.*s is not in model-dir (%.*s), and would not be found after a restart: import it "
            "(coordgenctl model import), or set model = PATH in coordgend.conf",
            UTF8_PREFIX(model->name, 64),
            UTF8_PREFIX(*peer->service->config->models.dir ? peer->service->config->models.dir : "none", 256));
        return false;
    }
    r = model_default_set(def, model->name, &err);
    if (!r)
        return true;
    connection_send_error(peer->connection, request_id,
                          r == MODEL_DEFAULT_E_SETTING ? COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT
                                                       : COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL,
                          0, r == MODEL_DEFAULT_E_SETTING ? "model_default.model" : "", "%s", err.text);
    return false;
}

void handle_model_default(Peer *peer, uint64_t request_id, const Coordgen__V1__ModelDefaultRequest *request) {
    Service *service = peer->service;
    const Model *model;

    if (request->model && !peer->may_administer) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_DENIED, 0, "",
                              "only administrators choose the default model: use the administrators' socket, or be "
                              "root");
        return;
    }
    if (!request->model && !model_registry_default(&service->models) && model_default_name(&service->def) &&
        model_default_by(&service->def) != MODEL_DEFAULT_BY_FIRST) {
        send_default(peer, request_id, NULL);
        return;
    }
    model = handler_find_model(peer, request_id, request->model, "model_default.model");
    if (!model)
        return;
    if (request->model) {
        if (!set_default(peer, request_id, model))
            return;
        log_notice_of(peer->user->uid, TOPIC_DAEMON, "model %s: the default from now on", model->name);
        loop_pump(&service->loop); /* the service manager is told */
    }
    send_default(peer, request_id, model);
}
