// SPDX-License-Identifier: Apache-2.0
/* Status: what an administrator wants to know at one glance. */
#include "base/clock.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/models/model_message.h"
#include "daemon/net/reply.h"
#include "daemon/requests/session.h"

enum {
    LIMIT_SOURCE_BYTES = 192,
};

static void fill_memory(const Service *service, Coordgen__V1__MemoryAccount accounts[_ACCOUNT_N]) {
    for (size_t i = 0; i < _ACCOUNT_N; i++) {
        uint64_t limit_bytes = service->accounts.limit_bytes[i];

        coordgen__v1__memory_account__init(&accounts[i]);
        accounts[i].name = (char *)account_name((AccountId)i);
        accounts[i].has_used_bytes = accounts[i].has_peak_bytes = accounts[i].has_limit_bytes = true;
        accounts[i].used_bytes = service->accounts.used_bytes[i];
        accounts[i].peak_bytes = service->accounts.peak_bytes[i];
        accounts[i].limit_bytes = limit_bytes == UINT64_MAX ? 0 : limit_bytes;
    }
}

/* The level that is in effect: "best" stands for the highest one that the machine has. */
static const char *effective_isa(const Service *service) {
    if (service->config->load.isa != ISA_BEST)
        return isa_name(service->config->load.isa);
    for (int i = _ISA_N - 1; i > 0; i--)
        if (isa_present((Isa)i))
            return isa_name((Isa)i);
    return isa_name(ISA_SCALAR);
}

static void fill_service(const Service *service, Coordgen__V1__StatusReply *reply) {
    reply->service_version = (char *)COORDGEN_VERSION;
    reply->has_uptime_us = reply->has_pid = reply->has_connections_max = reply->has_queue_max = true;
    reply->uptime_us = (clock_now_ns() - service->started_ns) / 1000;
    reply->pid = (uint32_t)getpid();
    reply->connections_max = service->config->limits.max_connections;
    reply->queue_max = service->config->turns.max_queue;
    reply->has_threads = reply->has_draining = reply->has_prefix_cache_max_bytes = true;
    reply->threads = service->n_threads;
    reply->draining = service->draining;
    reply->prefix_cache_max_bytes = service->config->memory.prefix_cache_max_bytes;
    reply->isa = (char *)effective_isa(service);
}

static void fill_tally(const Tally *tally, Coordgen__V1__StatusReply *reply) {
    reply->has_requests_done = reply->has_requests_cancelled = reply->has_requests_failed = true;
    reply->requests_done = tally->n_requests[TALLY_DONE];
    reply->requests_cancelled = tally->n_requests[TALLY_CANCELLED];
    reply->requests_failed = tally->n_requests[TALLY_FAILED];
    reply->has_prompt_tokens = reply->has_output_tokens = reply->has_cached_tokens = true;
    reply->prompt_tokens = tally->n_prompt_tokens;
    reply->output_tokens = tally->n_output_tokens;
    reply->cached_tokens = tally->n_cached_tokens;
}

static unsigned int n_of(const User *user, bool (*is_in)(const Request *request)) {
    const Request *request;
    unsigned int n = 0;

    TAILQ_FOREACH (request, &user->requests, user_link)
        n += is_in(request);
    return n;
}

/* What a user's apps do and did; what others do is theirs. */
static void fill_own(const Service *service, const User *user, Coordgen__V1__StatusReply *reply) {
    const Tally tally = tally_of(&service->requests.tallies, user->uid);

    reply->has_own_only = reply->own_only = true;
    reply->has_connections = reply->has_requests_queued = reply->has_requests_running = reply->has_sessions = true;
    reply->connections = user->n_connections;
    reply->requests_queued = n_of(user, request_is_waiting);
    reply->requests_running = n_of(user, request_is_submitted);
    reply->sessions = user->n_sessions;
    fill_tally(&tally, reply);
}

static void fill_total(const Service *service, Coordgen__V1__StatusReply *reply, char *source) {
    const uint64_t limit_bytes = service->accounts.total_limit_bytes;

    reply->has_memory_used_bytes = reply->has_memory_limit_bytes = true;
    reply->memory_used_bytes = service->accounts.total_bytes;
    reply->memory_limit_bytes = limit_bytes == UINT64_MAX ? 0 : limit_bytes;
    config_memory_limit_source(service->config, source, LIMIT_SOURCE_BYTES);
    reply->memory_limit_source = source;
}

static void fill_all(const Service *service, Coordgen__V1__StatusReply *reply) {
    reply->has_connections = reply->has_requests_queued = reply->has_requests_running = reply->has_sessions = true;
    reply->connections = service->users.n_connections + service->users.n_admin_connections;
    reply->requests_queued = service->requests.admission.n_waiting;
    reply->requests_running = service->requests.admission.n_active + service->requests.admission.n_small;
    reply->sessions = service->sessions.n_open;
    reply->has_preemptions = reply->has_prefix_cache_bytes = true;
    reply->preemptions = engine_thread_n_preempted(service->engine_thread);
    reply->prefix_cache_bytes = service->prefix_cache ? prefix_cache_kept_bytes(service->prefix_cache) : 0;
    fill_tally(&service->requests.tallies.all, reply);
}

void handle_status(Peer *peer, uint64_t request_id) {
    const Service *service = peer->service;
    size_t n_models = service->models.n_models, n = 0;
    _cleanup_(freep) ModelMessage *models = calloc(n_models + 1, sizeof(*models));
    _cleanup_(freep) Coordgen__V1__Model **list = calloc(n_models + 1, sizeof(*list));
    Coordgen__V1__MemoryAccount accounts[_ACCOUNT_N], *account_list[_ACCOUNT_N];
    Coordgen__V1__StatusReply reply = COORDGEN__V1__STATUS_REPLY__INIT;
    char source[LIMIT_SOURCE_BYTES];
    Coordgen__V1__Response response;
    const Model *model;

    if (!models || !list) {
        connection_send_error(peer->connection, request_id, COORDGEN__V1__ERROR_CODE__ERROR_CODE_INTERNAL, 0, "",
                              "out of memory");
        return;
    }
    TAILQ_FOREACH (model, &service->models.models, link) {
        if (model->stage == MODEL_AVAILABLE && !model_is_default(model))
            continue; /* ModelList has those */
        model_describe(&models[n], model, peer->may_administer);
        list[n] = &models[n].model;
        n++;
    }
    connection_spend(peer->connection, n / MODELS_A_UNIT);
    fill_service(service, &reply);
    if (peer->may_administer) {
        fill_memory(service, accounts);
        for (size_t i = 0; i < _ACCOUNT_N; i++)
            account_list[i] = &accounts[i];
        reply.memory = account_list;
        reply.n_memory = _ACCOUNT_N;
        fill_total(service, &reply, source);
        fill_all(service, &reply);
    } else {
        fill_own(service, peer->user, &reply);
    }
    reply.models = list;
    reply.n_models = n;
    reply_init(&response, request_id);
    response.op_case = COORDGEN__V1__RESPONSE__OP_STATUS;
    response.status = &reply;
    connection_send(peer->connection, &response);
}
