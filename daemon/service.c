// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/service.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/min_max.h"
#include "daemon/config/config_setting.h"
#include "daemon/models/load/model_load.h"
#include "daemon/models/model_drafts.h"
#include "daemon/models/model_options.h"
#include "daemon/requests/request.h"
#include "daemon/requests/request_load.h"
#include "daemon/requests/request_queue.h"

enum {
    NEWS_AT_A_TIME = 64, /* number of news handled at a time before connections have their turn */
    CLIENTS_SHARE = 8,   /* at most 1/8 of memory-limit is kept free for clients */
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Keeps a part of memory-limit free for clients, which models, generations and kept prompts must leave. The loop thread
 * accepts clients, and cannot evict prompts that the engine thread keeps. */
static void keep_free_for_clients(AccountTable *accounts) {
    const uint64_t part = accounts->total_limit_bytes / CLIENTS_SHARE, wanted = accounts->limit_bytes[ACCOUNT_SESSIONS];

    accounts->others_limit_bytes = accounts->total_limit_bytes - MIN(wanted, part);
}

static void set_limits(AccountTable *accounts, const Config *config) {
    account_table_init(accounts);
    accounts->total_limit_name = "memory-limit";
    if (config->memory.limit_bytes)
        accounts->total_limit_bytes = config->memory.limit_bytes;
    if (config->memory.kv_limit_bytes)
        accounts->limit_bytes[ACCOUNT_KV] = config->memory.kv_limit_bytes;
    if (config->memory.session_limit_bytes)
        accounts->limit_bytes[ACCOUNT_SESSIONS] = config->memory.session_limit_bytes;
    if (config->memory.limit_bytes)
        keep_free_for_clients(accounts);
}

int service_check_limits(const Config *config, ErrText *err) {
    _cleanup_(bill_settle) Bill bill = { 0 };
    AccountTable accounts;
    UserTable users;
    User user;

    set_limits(&accounts, config);
    user_table_init(&users, NULL, config, &accounts);
    user = (User){ .table = &users };
    if (!user_charge(&user, false, &bill, peer_bytes(config)))
        return 0;
    return err_set(err, SERVICE_E_LIMITS,
                   "output-buffer: no app could connect: %s has no room for the %" PRIu64
                   " bytes of a connection: lower output-buffer or raise that limit",
                   user_memory_limit(&user, false), peer_bytes(config));
}

static unsigned int count_threads(const Config *config) {
    return MIN(256, load_options_threads(&config->load));
}

static void on_model_change(void *arg, Model *model) {
    Service *service = arg;

    service->requests.models_changed = true;
    if (service->constraints && model->stage != MODEL_READY)
        constraint_store_sweep(service->constraints);
    loop_pump(&service->loop);
}

/* Tells whether a session holds the model: the session's next request is to find it loaded. */
static bool is_held_by_session(void *arg, const Model *model) {
    const Service *service = arg;
    const User *user = NULL;
    const Session *session;
    const Peer *peer;

    while ((user = user_next(&service->users, user)))
        TAILQ_FOREACH (peer, &user->peers, user_link)
            TAILQ_FOREACH (session, &peer->sessions, peer_link)
                if (!strcmp(session->model_name, model->name))
                    return true;
    return false;
}

static int make_engine_thread(Service *service, ErrText *err) {
    int r = outbox_new(&service->outbox);

    if (r)
        return err_set(err, r, "cannot make an eventfd: %s", strerror(-r));
    service->n_threads = count_threads(service->config);
    r = engine_thread_new(&service->engine_thread, service->outbox, service->n_threads, err);
    if (r)
        return r;
    engine_thread_use_constraints(service->engine_thread, service->constraints);
    service->models.thread = service->requests.engine_thread = service->sessions.engine_thread = service->engine_thread;
    return 0;
}

static int make_prefix_cache(Service *service, ErrText *err) {
    if (service->config->memory.prefix_cache_max_bytes &&
        prefix_cache_new(&service->prefix_cache, service->config->memory.prefix_cache_max_bytes))
        return err_no_memory(err);
    service->models.prefix_cache = service->sessions.prefix_cache = service->prefix_cache;
    return 0;
}

static void on_draft_news(void *arg) {
    const Service *service = arg;

    engine_thread_wake(service->engine_thread);
}

static int make_draft_store(Service *service, ErrText *err) {
    const Config *config = service->config;
    _cleanup_(freep) char *path = NULL;

    if (!config->draft_db.is_on)
        return 0;
    if (!*config->draft_db.dir) {
        log_warn(TOPIC_DAEMON, "nothing is stored for later drafts: set draftdb-dir, or XDG_STATE_HOME or HOME");
        return 0;
    }
    if (asprintf(&path, "%s/drafts.db", config->draft_db.dir) < 0) {
        path = NULL;
        return err_no_memory(err);
    }
    if (draft_store_new(&service->drafts.store, path, &config->draft_db.limits, &service->accounts) ||
        histories_new(&service->drafts.histories, service->drafts.store))
        return err_no_memory(err);
    engine_thread_use_histories(service->engine_thread, service->drafts.histories);
    return 0;
}

int service_start_draft_store(Service *service, ErrText *err) {
    int r = service->drafts.store ? draft_store_start(service->drafts.store, on_draft_news, service) : 0;

    return r ? err_set(err, r, "cannot start the draft database's thread: %s", strerror(-r)) : 0;
}

int service_take_settings(Service *service) {
    int r = no_history_set(&service->drafts.no_history, service->config->draft_db.no_history);

    if (r)
        return r;
    model_drafts_renew_all(&service->models);
    return model_pairs_take_setting(&service->pairs, service->config->models.draft_model);
}

int service_init(Service *service, Config **configp, ErrText *err) {
    int r;

    *service = (Service){ .config = steal(configp), .started_ns = clock_now_ns() };
    service->loop.thread = pthread_self();
    set_limits(&service->accounts, service->config);
    user_table_init(&service->users, &service->loop, service->config, &service->accounts);
    request_table_init(&service->requests, &service->loop, service->config);
    service->sessions.loop = &service->loop;
    model_registry_init(&service->models, &service->loop, service->config, &service->accounts, on_model_change,
                        service);
    service->models.watch.is_held = is_held_by_session;
    model_folder_init(&service->folder, &service->models);
    service->loop.base = event_base_new();
    if (!service->loop.base)
        return err_set(err, -ENOMEM, "cannot make an event loop");
    TAILQ_INIT(&service->drafts.calls);
    service->models.pairs = &service->pairs;
    service->models.def = &service->def;
    if (model_pairs_init(&service->pairs, service->config->state_dir) ||
        model_default_init(&service->def, service->config->state_dir) || service_take_settings(service))
        return err_no_memory(err);
    if (constraint_store_new(&service->constraints, &service->accounts))
        return err_set(err, -ENOMEM, "cannot make an eventfd");
    service->requests.constraints = service->constraints;
    r = model_registry_read_chat_template(&service->models, err);
    if (!r)
        r = make_engine_thread(service, err);
    if (!r)
        r = make_draft_store(service, err);
    return r ? r : make_prefix_cache(service, err);
}

/* Adds a file that a setting names. Return: 0 or -errno with a text. */
static int add_file(Service *service, const char *path, Model **modelp, ErrText *err) {
    int r = model_registry_add(&service->models, path, modelp, err);

    if (r)
        return r < 0 ? r : -EINVAL;
    model_note_origin(*modelp, MODEL_FROM_SETTING);
    return 0;
}

static int add_preloaded(Service *service, ErrText *err) {
    const char *rest = service->config->models.preload;
    char name[PATH_MAX];
    Model *model;
    int r = 0;

    while (!r && (rest = setting_next_model(rest, name, sizeof(name))))
        if (setting_is_path(name)) {
            r = add_file(service, name, &model, err);
            if (r)
                err_prefix(err, "preload");
        }
    return r;
}

void service_warn_sections(Service *service) {
    const char *name = NULL;

    while ((name = config_next_section(service->config, name)))
        if (!model_registry_find(&service->models, name))
            log_warn(TOPIC_DAEMON, "[model %s]: there is no model of this name at the moment (coordgenctl model list)",
                     name);
}

int service_add_models(Service *service, ErrText *err) {
    const char *wanted = service->config->models.default_model;
    int r = 0;

    if (setting_is_path(wanted))
        r = add_file(service, wanted, &service->models.default_model, err);
    if (!r)
        r = add_preloaded(service, err);
    if (r)
        return r;
    if (model_folder_want(&service->folder))
        while (model_folder_step(&service->folder))
            ;
    r = model_default_take_setting(&service->def,
                                   setting_is_path(wanted) ? service->models.default_model->name : wanted);
    if (r)
        return err_set(err, r, "out of memory");
    if (*wanted && !model_registry_default(&service->models))
        log_error(TOPIC_DAEMON,
                  "the setting model names %s, and there is no model of this name yet: no model is the default "
                  "(coordgenctl model list)",
                  wanted);
    model_registry_note_default(&service->models);
    service_warn_sections(service);
    return 0;
}

/* Loads one model at the start; a failure does not affect the other models. */
static void load_first(Model *model) {
    ErrText err;

    if (model)
        (void)model_load(model, &err);
}

void service_load_first(Service *service) {
    const char *rest = service->config->models.preload;
    char name[PATH_MAX];
    Model *model;

    load_first(model_registry_default(&service->models));
    while ((rest = setting_next_model(rest, name, sizeof(name)))) {
        model = setting_is_path(name) ? model_registry_find_path(&service->models, name)
                                      : model_registry_find(&service->models, name);
        load_first(model);
        if (!model)
            log_error(TOPIC_DAEMON, "preload: there is no model '%s' (coordgenctl model list)", name);
    }
}

static void free_peers(UserTable *users) {
    User *user, *next_user;
    Peer *peer, *next;

    for (user = user_next(users, NULL); user; user = next_user) {
        next_user = user_next(users, user);
        for (peer = TAILQ_FIRST(&user->peers); peer; peer = next) {
            next = TAILQ_NEXT(peer, user_link);
            peer_free(peer);
        }
    }
}

void service_deinit(Service *service) {
    free_peers(&service->users);
    model_folder_deinit(&service->folder);
    constraint_store_free(service->constraints);
    model_registry_deinit(&service->models);
    model_pairs_deinit(&service->pairs);
    model_default_deinit(&service->def);
    engine_thread_free(service->engine_thread);
    histories_free(service->drafts.histories);
    draft_store_free(service->drafts.store);
    no_history_deinit(&service->drafts.no_history);
    prefix_cache_free(service->prefix_cache);
    outbox_free(service->outbox);
    request_table_deinit(&service->requests);
    if (service->loop.settle)
        event_free(service->loop.settle);
    if (service->scan)
        event_free(service->scan);
    if (service->loop.base)
        event_base_free(service->loop.base);
    config_free(service->config);
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

void service_settle(Service *service) {
    model_registry_note_default(&service->models);
    if (!service->draining)
        model_drafts_settle(&service->models);
    request_load_settle(&service->requests);
    request_queue_settle(&service->requests);
}

bool service_take_news(Service *service) {
    JobNews news;
    Job *job;

    outbox_quiet(service->outbox);
    for (unsigned int i = 0; i < NEWS_AT_A_TIME; i++) {
        job = outbox_take(service->outbox, &news);
        if (!job)
            return false;
        if (job->kind == JOB_LOAD || job->kind == JOB_UNLOAD)
            model_on_news(job->owner, job, &news);
        else if (job->kind == JOB_SESSION_FORK || job->kind == JOB_SESSION_CLOSE)
            session_on_news(job->owner, &news);
        else
            request_on_news(job->owner, &news);
        job_news_deinit(&news);
    }
    return true;
}

static bool has_unsent(const User *user) {
    const Peer *peer;

    TAILQ_FOREACH (peer, &user->peers, user_link)
        if (peer->connection->state != CONNECTION_DEAD && connection_unsent_bytes(peer->connection))
            return true;
    return false;
}

bool service_is_drained(const Service *service) {
    const User *user = NULL;

    if (!request_table_is_empty(&service->requests) || !TAILQ_EMPTY(&service->drafts.calls))
        return false;
    while ((user = user_next(&service->users, user)))
        if (has_unsent(user))
            return false;
    return true;
}

int service_stop(Service *service) {
    int r;

    if (!service->engine_thread)
        return 0;
    request_cut_short_all(&service->requests);
    r = engine_thread_stop(service->engine_thread, SERVICE_STOP_MS);
    if (r)
        return r;
    service->sessions.engine_ended = true;
    while (service_take_news(service))
        ;
    r = constraint_store_stop(service->constraints, SERVICE_STOP_MS);
    if (r)
        return r;
    request_on_constraints(&service->requests);
    if (!service->drafts.store)
        return 0;
    TAILQ_INIT(&service->drafts.calls); /* no client waits for an answer; the store's lists own the errands */
    return draft_store_stop(service->drafts.store, SERVICE_STORE_MS);
}
