// SPDX-License-Identifier: Apache-2.0
/* Models: list, show, load, unload. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/strings/nearest_word.h"
#include "base/strings/printable.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/models/load/model_demand.h"
#include "daemon/models/load/model_load.h"
#include "daemon/models/load/model_unload.h"
#include "daemon/models/model_drafts.h"
#include "daemon/models/model_message.h"
#include "daemon/net/reply.h"
#include "daemon/requests/request_failure.h"
#include "daemon/requests/request_load.h"
#include "daemon/requests/request_sampling.h"

#define MODEL_FILE_BYTES_MAX (INT64_C(1) << 40) /* it is mapped whole */

/* The next part of a scan, when the loop is back at its top. 0 or -ENOMEM. */
static int go_on_reading(Service *service) {
    static const struct timeval at_once = { 0 };

    return evtimer_pending(service->scan, NULL) || !evtimer_add(service->scan, &at_once) ? 0 : err_raise(-ENOMEM);
}

/* Whether the message must wait for news of the models' folder: its handler returns and is called again. */
static bool await_folder(Peer *peer) {
    uint64_t scan;

    if (peer->awaited_scan) /* that was it, however old it is by now */
        return false;
    scan = model_folder_want(&peer->service->folder);
    if (!scan || go_on_reading(peer->service))
        return false;
    peer->awaited_scan = scan;
    connection_put_off(peer->connection);
    return true;
}

static void go_on(Service *service, const User *user) {
    Peer *peer;

    TAILQ_FOREACH (peer, &user->peers, user_link)
        if (peer->awaited_scan && model_folder_has(&service->folder, peer->awaited_scan))
            connection_go_on(peer->connection);
}

void handler_on_scan(evutil_socket_t fd, short what, void *arg) {
    Service *service = arg;
    const User *user = NULL;
    bool has_more;

    assert_on_loop(&service->loop);
    do /* what cannot be put off is done now */
        has_more = model_folder_step(&service->folder);
    while (has_more && go_on_reading(service));
    while ((user = user_next(&service->users, user)))
        go_on(service, user);
}

/* Finds the model that a name may have been meant for, among the first ones; NULL: none. */
static const char *near_model(const ModelRegistry *registry, const char *name) {
    const char *names[256];
    const Model *model;
    size_t n = 0;

    TAILQ_FOREACH (model, &registry->models, link)
        if (n < ARRAY_LEN(names))
            names[n++] = model->name;
    return nearest_word(name, names, n);
}

/* Tells whether a model's file was removed and nothing of the model is left in memory either. */
static bool is_gone(const Model *model) {
    return (model->stage == MODEL_AVAILABLE || model->stage == MODEL_FAILED) && !model->engine &&
           model->source.fd < 0 && access(model->source.path, F_OK) < 0 && errno == ENOENT;
}

static void send_not_found(Peer *peer, uint64_t request_id, const char *field, const ErrText *text) {
    connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_FOUND, 0, field,
                          "%s", text->text);
}

/* Says why there is no model of this name: what its file is, or which name may be meant. */
static void refuse_name(Peer *peer, uint64_t request_id, const char *name, const char *field) {
    const ModelRegistry *registry = &peer->service->models;
    const char *why = model_folder_why_not(&peer->service->folder, name),
               *near = why ? NULL : near_model(registry, name);
    ErrText text;

    connection_spend(peer->connection, registry->n_models / MODELS_A_UNIT + 1);
    if (why)
        err_set(&text, 0, "there is no model '%.*s': %s", UTF8_PREFIX(name, 255), why);
    else if (near)
        err_set(&text, 0, "there is no model '%.*s': did you mean '%s'?", UTF8_PREFIX(name, 255), near);
    else
        err_set(&text, 0, "there is no model '%.*s': see coordgenctl model list", UTF8_PREFIX(name, 255));
    send_not_found(peer, request_id, field, &text);
}

/* Says why there is no default model. */
static void refuse_default(Peer *peer, uint64_t request_id, const char *field) {
    const ModelRegistry *registry = &peer->service->models;
    const bool is_setting = model_default_by(registry->def) == MODEL_DEFAULT_BY_SETTING;
    ErrText text;

    if (registry->n_models)
        err_set(&text, 0,
                "the default model %.*s%s is not there any more, and %zu other models are: name one (coordgenctl model "
                "list), or %s",
                UTF8_PREFIX(model_default_name(registry->def), 255), is_setting ? " (the setting model)" : "",
                registry->n_models,
                is_setting ? "change the setting model in coordgend.conf"
                           : "make one the default (coordgenctl model default NAME)");
    else
        err_set(&text, 0, "the service has no model, none is in %.*s: coordgenctl model import FILE.gguf",
                UTF8_PREFIX(*registry->config->models.dir ? registry->config->models.dir
                                                          : "a folder (model-dir= is not set)",
                            512));
    send_not_found(peer, request_id, field, &text);
}

Model *handler_find_model(Peer *peer, uint64_t request_id, const char *name, const char *field) {
    ModelRegistry *registry = &peer->service->models;
    const bool is_named = name && *name;
    Model *model = model_registry_find(registry, is_named ? name : "");
    ErrText text;

    /* An import that has just ended may have put it into the folder: the message is looked at again then. */
    if (model && !is_gone(model))
        return model;
    if (await_folder(peer))
        return NULL;
    if (model) {
        err_set(&text, 0, "there is no model '%.*s' any more: its file was removed", UTF8_PREFIX(model->name, 255));
        send_not_found(peer, request_id, field, &text);
        return NULL;
    }
    model = is_named ? NULL : model_registry_choose_default(registry);
    if (model)
        return model;
    if (is_named)
        refuse_name(peer, request_id, name, field);
    else
        refuse_default(peer, request_id, field);
    return NULL;
}

bool handler_demand_model(Peer *peer, uint64_t request_id, Model *model, const char *named) {
    ErrText err;

    if (!model_demand(model, (ModelDemand){ .is_admin = peer->may_administer, .is_named = named && *named }, &err))
        return true;
    connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY, 0, "",
                          "%s", err.text);
    return false;
}

void handle_model_list(Peer *peer, uint64_t request_id) {
    ModelRegistry *registry = &peer->service->models;
    _cleanup_(freep) ModelMessage *entries = NULL;
    _cleanup_(freep) Coordgen__V1__Model **list = NULL;
    Coordgen__V1__ModelListReply reply = COORDGEN__V1__MODEL_LIST_REPLY__INIT;
    Coordgen__V1__Response response;
    const Model *model;
    size_t n = 0;

    if (await_folder(peer))
        return;
    connection_spend(peer->connection, registry->n_models / MODELS_A_UNIT);
    if (!model_registry_default(registry))
        (void)model_registry_choose_default(registry); /* the list shows it */
    entries = calloc(registry->n_models + 1, sizeof(*entries));
    list = calloc(registry->n_models + 1, sizeof(*list));
    if (!entries || !list) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL, 0, "",
                              "out of memory");
        return;
    }
    TAILQ_FOREACH (model, &registry->models, link) {
        model_describe(&entries[n], model, peer->may_administer);
        list[n] = &entries[n].model;
        n++;
    }
    reply_init(&response, request_id);
    reply.models = list;
    reply.n_models = n;
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_LIST;
    response.model_list = &reply;
    connection_send(peer->connection, &response);
}

/* Describes what requests of a loaded model get that do not say otherwise. sampling: room for a part of the reply. */
static void describe_defaults(const Service *service, const Model *model, Coordgen__V1__ModelShowReply *reply,
                              Coordgen__V1__SamplingOptions *sampling) {
    const bool is_models = service->config->generations.sampling_defaults == CONFIG_SAMPLING_MODEL;
    SamplingChoice choice;
    size_t len_bytes;
    const char *text;

    if (model->stage != MODEL_READY)
        return;
    sampling_choose(&choice, is_models ? engine_sampling_defaults(model->engine) : NULL, &SAMPLER_OPTIONS_GREEDY, 0);
    request_sampling_fill(&choice.options, NULL, sampling);
    sampling->has_seed = false; /* each request has its own */
    reply->sampling = sampling;
    text = chat_template_text(engine_chat_template(model->engine), &len_bytes);
    reply->has_chat_template = text != NULL;
    if (text)
        reply->chat_template = (ProtobufCBinaryData){ .data = (uint8_t *)(uintptr_t)text, .len = len_bytes };
}

void handle_model_show(Peer *peer, uint64_t request_id, const char *name) {
    Model *model = handler_find_model(peer, request_id, name, "model_show.model");
    Coordgen__V1__ModelShowReply reply = COORDGEN__V1__MODEL_SHOW_REPLY__INIT;
    Coordgen__V1__SamplingOptions sampling;
    Coordgen__V1__Response response;
    ModelMessage entry;

    if (!model)
        return;
    model_measure(model);
    describe_defaults(peer->service, model, &reply, &sampling);
    model_describe(&entry, model, peer->may_administer);
    reply_init(&response, request_id);
    reply.model = &entry.model;
    response.op_case = COORDGEN__V1__RESPONSE__OP_MODEL_SHOW;
    response.model_show = &reply;
    connection_send(peer->connection, &response);
}

/* Whether the file that came with the request is one to read a model from; if not the error is sent. */
static bool check_file(Peer *peer, uint64_t request_id, const char *name) {
    struct stat file;
    int flags;

    if (peer->connection->input.fd < 0) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              "model_load.with_file", "%.*s: no open file came with the message",
                              UTF8_PREFIX(name, 512));
        return false;
    }
    flags = fcntl(peer->connection->input.fd, F_GETFL);
    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_WRONLY ||
        fstat(peer->connection->input.fd, &file) < 0 || !S_ISREG(file.st_mode)) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              "model_load.with_file", "%.*s: not a regular file that is open for reading",
                              UTF8_PREFIX(name, 512));
        return false;
    }
    if (file.st_size > MODEL_FILE_BYTES_MAX) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT, 0,
                              "model_load.with_file", "%.*s: a file of %lld bytes: a model has at most %lld",
                              UTF8_PREFIX(name, 512), (long long)file.st_size, (long long)MODEL_FILE_BYTES_MAX);
        return false;
    }
    return true;
}

/* An administrator may name any file, or hand it over; one that has a name in the folder keeps it. NULL: as of
 * handler_find_model(). */
static Model *find_by_path(Peer *peer, uint64_t request_id, const char *path, bool with_file) {
    ModelRegistry *registry = &peer->service->models;
    ErrText err = { .text = "out of memory" };
    Model *model;
    int r;

    if (!peer->may_administer) {
        connection_send_error(
            peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_DENIED, 0, "model_load.model",
            "only administrators load a model by its path: use the administrators' socket, or be root");
        return NULL;
    }
    model = model_registry_find_path(registry, path);
    if (!model && await_folder(peer))
        return NULL;
    if (with_file && !check_file(peer, request_id, path))
        return NULL;
    if (!with_file && access(path, F_OK) < 0) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_FOUND, 0,
                              "model_load.model", "%.*s: %s", UTF8_PREFIX(path, 512), strerror(errno));
        return NULL;
    }
    if (!model) {
        connection_spend(peer->connection, registry->n_models / MODELS_A_UNIT);
        model = model_registry_find_file(registry, path, with_file ? peer->connection->input.fd : -1);
    }
    if (model)
        return model;
    r = model_registry_add(registry, path, &model, &err);
    if (!r)
        return model;
    connection_send_error(peer->connection, request_id,
                          r > 0 ? COORDGEN__V1__ERROR_CODE__ERROR_CODE_INVALID_ARGUMENT
                                : COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL,
                          0, "model_load.model", "%s", err.text);
    return NULL;
}

/* Loads wait for their model, not in the queue, but no more of them do than could wait there. Return: whether there is
 * room; if not, the error is sent. */
static bool may_wait(Peer *peer, uint64_t request_id) {
    Service *service = peer->service;
    const unsigned int user_max = admission_user_max(&service->requests.admission);
    const Request *other;
    unsigned int n = 0;

    if (peer->is_admin)
        return true;
    TAILQ_FOREACH (other, &peer->user->requests, user_link)
        n += other->state == REQUEST_LOADING && !other->is_admin;
    if (n >= user_max) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED,
                              admission_retry_ms(&service->requests.admission), "",
                              "%u loads of this user wait: no more are accepted before one ends (half of max-queue)",
                              n);
        return false;
    }
    if (service->requests.n_loads < service->config->turns.max_queue || service->requests.n_loads < user_max)
        return true;
    connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                          admission_retry_ms(&service->requests.admission), "",
                          "%u loads wait (max-queue): try again later", service->requests.n_loads);
    return false;
}

void handle_model_load(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes) {
    Service *service = peer->service;
    uint64_t request_id = (*messagep)->request_id;
    const char *name = (*messagep)->model_load->model;
    Request *request = NULL;
    bool must_load, with_file;
    ErrText err;
    Model *model;

    if (service->draining) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN, 0, "",
                              "the service is shutting down");
        return;
    }
    if (peer->n_requests >= service->config->limits.max_requests_per_connection) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED,
                              admission_retry_ms(&service->requests.admission), "",
                              "%u requests are in flight on this connection", peer->n_requests);
        return;
    }
    if (!may_wait(peer, request_id))
        return;
    with_file = (*messagep)->model_load->has_with_file && (*messagep)->model_load->with_file;
    model = name && *name == '/' ? find_by_path(peer, request_id, name, with_file)
                                 : handler_find_model(peer, request_id, name, "model_load.model");
    if (!model)
        return;
    /* A model that is loaded or on its way costs nothing to wait for. */
    must_load = !model_is_loaded(model);
    if ((*messagep)->model_load->on_demand) {
        if (!handler_demand_model(peer, request_id, model, name))
            return;
        must_load = false;
    }
    if (must_load && !peer->may_administer && !service->config->models.api_may_load) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_DENIED, 0, "",
                              "only administrators load models: use the administrators' socket, be root, or set "
                              "api-may-load = yes; a request that names a model loads it where load-on-demand allows "
                              "that");
        return;
    }
    /* First: who is told BUSY must find neither a load under way nor a model in the list. */
    if (request_new(&request, &service->requests, peer, messagep, len_bytes, model)) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                              admission_retry_ms(&service->requests.admission), "",
                              "no memory for the request: %s is reached",
                              user_memory_limit(peer->user, peer->is_admin));
        model_forget_unused(model);
        return;
    }
    if (peer->may_administer || service->config->models.api_may_load)
        model->is_loaded_as_draft = false; /* somebody wants it for itself, who may have it so */
    if (must_load)
        model_take_file(model, &peer->connection->input.fd);
    /* The open file is for a load that begins now. */
    if (must_load && (with_file && model_is_unloading(model) ? model_load : model_load_with_room)(model, &err)) {
        request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_IN_USE,
                     admission_retry_ms(&service->requests.admission), "", "%s", err.text);
        return;
    }
    request_load_wait(request);
}

void handle_model_unload(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes) {
    Service *service = peer->service;
    uint64_t request_id = (*messagep)->request_id;
    ErrText err = { .text = "out of memory" };
    const Model *target;
    Request *request;
    Model *model;
    int r;

    if (!peer->may_administer && !service->config->models.api_may_load) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_DENIED, 0, "",
                              "only administrators unload models: use the administrators' socket, be root, or set "
                              "api-may-load = yes");
        return;
    }
    model = handler_find_model(peer, request_id, (*messagep)->model_unload->model, "model_unload.model");
    if (!model)
        return;
    target = model_drafts_target_of(&service->models, model);
    if (target) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_IN_USE, 0, "",
                              "model %.*s drafts for %.*s, which is loaded: unload that, or undo the pair (coordgenctl "
                              "model pair %.*s --draft none)",
                              UTF8_PREFIX(model->name, 64), UTF8_PREFIX(target->name, 64),
                              UTF8_PREFIX(target->name, 64));
        return;
    }
    if (model->n_users) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_IN_USE,
                              admission_retry_ms(&service->requests.admission), "",
                              "model %.*s is in use by %u requests: try again when they have ended",
                              UTF8_PREFIX(model->name, 64), model->n_users);
        return;
    }
    /* First, for there is no way back from the unload. */
    if (request_new(&request, &service->requests, peer, messagep, len_bytes, model)) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                              admission_retry_ms(&service->requests.admission), "",
                              "no memory for the request: %s is reached",
                              user_memory_limit(peer->user, peer->is_admin));
        return;
    }
    r = model_unload(model, &err);
    if (r) {
        bool absent = model->stage == MODEL_AVAILABLE;

        request_fail(request,
                     r < 0    ? COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL
                     : absent ? COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_NOT_READY
                              : COORDGEN__V1__ERROR_CODE__ERROR_CODE_MODEL_IN_USE,
                     r > 0 && !absent ? admission_retry_ms(&service->requests.admission) : 0, "", "%s", err.text);
        return;
    }
    request_load_wait(request);
}
