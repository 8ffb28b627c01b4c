// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/server.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/thread.h"
#include "daemon/admission_order.h"
#include "daemon/connection.h"
#include "daemon/notify.h"
#include "daemon/places.h"
#include "daemon/request.h"
#include "daemon/session.h"

enum {
    TICK_MS = 250,
    TICK_DRAINING_MS = 50,
    CANCEL_GRACE_MS = 2000, /* after the drain timeout: for the last messages to be read */
    STOP_TIMEOUT_MS = 2000, /* for the engine thread to end after its last step */
    DESCRIPTORS_BESIDE_CLIENTS = 64,
    CONNECTIONS_MIN = 4,
    NEWS_AT_A_TIME = 64, /* of jobs; then connections have their turn */
    CLIENTS_SHARE = 8,   /* of memory-limit at most one part in so many is kept free for clients */
};

#define STATUS_INTERVAL_NS (UINT64_C(1000) * 1000 * 1000)

static struct timeval timeval_of(uint64_t ms) {
    return (struct timeval){ .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000 };
}

/* ---- status ------------------------------------------------------------------------------------------------------ */

static void status_text(const Server *server, char *text, size_t room_bytes) {
    const Model *model = model_registry_default(&server->models);

    if (server->draining)
        snprintf(text, room_bytes, "Shutting down: %u requests are running",
                 server->admission.n_active + server->admission.n_small);
    else if (!model)
        snprintf(text, room_bytes, "Serving, no %smodel", server->models.n_models ? "default " : "");
    else if (model->stage == MODEL_IMPORTING)
        snprintf(text, room_bytes, "Serving, model %.*s: importing, %u %%", UTF8_PREFIX(model->name, 64),
                 model->permille / 10);
    else if (model->stage == MODEL_LOADING)
        snprintf(text, room_bytes, "Serving, model %.*s: loading, %u %%", UTF8_PREFIX(model->name, 64),
                 model->permille / 10);
    else if (model->stage == MODEL_FAILED)
        snprintf(text, room_bytes, "Serving, model %.*s: failed: %.*s", UTF8_PREFIX(model->name, 64),
                 UTF8_PREFIX(model->failure.text, 256));
    else
        snprintf(text, room_bytes, "Serving, model %.*s: %s", UTF8_PREFIX(model->name, 64),
                 model_stage_name(model->stage));
}

static void show_status(Server *server) {
    const Model *model = model_registry_default(&server->models);
    uint64_t now_ns = clock_now_ns();
    char text[512];

    /* A percentage is news once a second; what else changes is news at once. */
    if (model && model->stage == MODEL_IMPORTING && now_ns - server->status_ns < STATUS_INTERVAL_NS)
        return;
    server->status_ns = now_ns;
    status_text(server, text, sizeof(text));
    notify_status(text);
}

uint32_t server_retry_ms(Server *server) {
    return admission_retry_ms(&server->admission);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

void server_add_connection(Server *server, Connection *connection) {
    TAILQ_INSERT_TAIL(&server->connections, connection, link);
    if (connection->is_admin) {
        server->n_admin_connections++;
    } else {
        server->n_connections++;
        connection->user->n_connections++;
    }
}

void server_forget_connection(Server *server, Connection *connection) {
    TAILQ_REMOVE(&server->connections, connection, link);
    if (connection->is_admin) {
        server->n_admin_connections--;
    } else {
        server->n_connections--;
        connection->user->n_connections--;
    }
}

static void on_accept(void *arg, int fd, bool is_admin) {
    Server *server = arg;
    Connection *connection;
    uid_t uid;
    pid_t pid;
    int r = connection_peer(fd, &uid, &pid);

    if (r) {
        log_warn(TOPIC_DAEMON, "a connection is closed: its user is not known: %s", strerror(-r));
        close(fd);
        return;
    }
    r = places_make(server, is_admin, uid);
    if (r == PLACES_E_FULL) {
        log_info(TOPIC_DAEMON, "uid %u: refused: all connections are in use", (unsigned int)uid);
        connection_refuse(fd, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY, server_retry_ms(server),
                          "all connections are in use (max-connections): try again later");
        return;
    }
    if (r == PLACES_E_USER) {
        log_info(TOPIC_DAEMON, "uid %u: refused: max-connections-per-uid is reached", (unsigned int)uid);
        connection_refuse(fd, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED, server_retry_ms(server),
                          "this user has too many connections (max-connections-per-uid): close some");
        return;
    }
    r = connection_new(&connection, server, fd, is_admin);
    if (r)
        log_warn(TOPIC_DAEMON, "uid %u: refused: %s", (unsigned int)uid,
                 r > 0 ? "no memory within session-memory-limit or memory-limit" : strerror(-r));
}

/* A client is a descriptor: a limit that does not allow max-connections is found out now, not under load. 0, or -EMFILE:
 * it allows next to none. */
static int check_descriptors(Config *config, ErrText *err) {
    const rlim_t beside = ADMIN_CONNECTIONS_MAX + DESCRIPTORS_BESIDE_CLIENTS,
                 wanted = (rlim_t)config->max_connections + beside;
    const uint32_t min = config->max_connections < CONNECTIONS_MIN ? config->max_connections : CONNECTIONS_MIN;
    struct rlimit limit;
    uint32_t possible;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted)
        return 0;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= wanted ? wanted : limit.rlim_max;
    if (!setrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur >= wanted)
        return 0;
    possible = limit.rlim_cur > beside ? (uint32_t)(limit.rlim_cur - beside) : 0;
    if (possible < min)
        return err_set(err, -EMFILE,
                       "the limit on open files (%" PRIu64 ") allows %" PRIu32 " connections: raise it to %" PRIu64
                       " (LimitNOFILE= of the unit, ulimit -n), at least to %" PRIu64,
                       (uint64_t)limit.rlim_cur, possible, (uint64_t)wanted, (uint64_t)(beside + min));
    log_warn(TOPIC_DAEMON,
             "the limit on open files (%" PRIu64 ") allows %" PRIu32 " connections instead of %" PRIu32
             ": raise it to %" PRIu64 " (LimitNOFILE= of the unit, ulimit -n)",
             (uint64_t)limit.rlim_cur, possible, config->max_connections, (uint64_t)wanted);
    config->max_connections = possible;
    return 0;
}

/* ---- the loop's work --------------------------------------------------------------------------------------------- */

void server_pump(Server *server) {
    event_active(server->settle, 0, 0);
}

static bool is_drained(const Server *server) {
    const Connection *connection;

    if (server->admission.n_active || server->admission.n_small || server->admission.n_waiting ||
        !TAILQ_EMPTY(&server->loads))
        return false;
    TAILQ_FOREACH(connection, &server->connections, link)
    if (connection->state != CONNECTION_DEAD && connection_unsent_bytes(connection))
        return false;
    return true;
}

static void arm_tick(Server *server) {
    struct timeval after = timeval_of(server->draining ? TICK_DRAINING_MS : TICK_MS);

    if ((server->draining || server->admission.n_waiting || admission_n_resting(&server->admission)) &&
        !evtimer_pending(server->tick, NULL) && evtimer_add(server->tick, &after))
        log_error(TOPIC_DAEMON, "out of memory: waiting requests hear nothing until the next one ends");
}

static void on_settle(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;
    Request *request, *next;

    assert_on_loop(&server->loop);
    request = server->models_changed ? TAILQ_FIRST(&server->loads) : NULL;
    server->models_changed = false;
    for (; request; request = next) {
        next = TAILQ_NEXT(request, queue_link);
        request_on_model_change(request);
    }
    admission_pump(&server->admission);
    show_status(server);
    arm_tick(server);
    if (server->draining && is_drained(server))
        event_base_loopbreak(server->loop.base);
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;
    Request *request;
    uint64_t now_ns = clock_now_ns();

    admission_number(&server->admission, now_ns);
    TAILQ_FOREACH(request, &server->admission.waiting, queue_link)
    request_tick(request, now_ns);
    on_settle(fd, what, arg);
}

/* Return: whether there may be more. */
static bool server_take_news(Server *server) {
    JobNews news;
    Job *job;

    outbox_quiet(server->outbox);
    for (unsigned int i = 0; i < NEWS_AT_A_TIME; i++) {
        job = outbox_take(server->outbox, &news);
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

static void on_news(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;

    assert_on_loop(&server->loop);
    if (server_take_news(server))
        outbox_call(server->outbox);
}

static void on_model_change(void *arg, Model *model) {
    Server *server = arg;

    server->models_changed = true;
    server_pump(server);
}

int server_read_folder(Server *server) {
    static const struct timeval at_once = { 0 };

    return evtimer_pending(server->scan, NULL) || !evtimer_add(server->scan, &at_once) ? 0 : err_raise(-ENOMEM);
}

static void on_scan(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;
    Connection *connection;
    bool goes_on;

    assert_on_loop(&server->loop);
    do /* what cannot be put off is done now */
        goes_on = model_folder_step(&server->folder);
    while (goes_on && server_read_folder(server));
    TAILQ_FOREACH(connection, &server->connections, link)
    connection_on_folder(connection);
}

/* ---- watchdog ---------------------------------------------------------------------------------------------------- */

/* The loop lives, or this would not run; the engine thread lives when it is idle or has done something of late. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;
    EngineThreadPulse pulse = engine_thread_pulse(server->engine_thread);
    uint64_t now_ns = clock_now_ns();
    bool late;

    if (pulse.n_beats != server->beats_seen || !pulse.busy_since_ns) {
        server->beats_seen = pulse.n_beats;
        server->beat_ns = now_ns;
    }
    late = (now_ns - server->beat_ns) / 1000000 > server->config->step_timeout_ms;
    if (!late)
        notify_watchdog_ping();
    else if (!server->was_late)
        log_error(TOPIC_DAEMON, "the engine thread has been in one operator for %" PRIu64 " s: the watchdog is not fed",
                  (now_ns - server->beat_ns) / 1000000000);
    server->was_late = late;
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static void cut_all_short(Server *server) {
    Connection *connection;
    Request *request, *next;

    TAILQ_FOREACH(connection, &server->connections, link)
    for (request = TAILQ_FIRST(&connection->requests); request; request = next) {
        next = TAILQ_NEXT(request, connection_link);
        request_cut_short(request);
    }
}

static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;
    struct timeval grace = timeval_of(CANCEL_GRACE_MS);

    if (server->was_cancelled) {
        log_warn(TOPIC_DAEMON, "some clients do not read their last messages: leaving");
        event_base_loopbreak(server->loop.base);
        return;
    }
    server->was_cancelled = true;
    log_notice(TOPIC_DAEMON, "drain-timeout has passed: %u running requests are cancelled",
               server->admission.n_active + server->admission.n_small);
    cut_all_short(server);
    if (evtimer_add(server->deadline, &grace))
        event_base_loopbreak(server->loop.base);
}

/* Requests that have no turn yet: nothing is lost when their clients ask again. */
static void turn_away_waiting(Server *server) {
    RequestList *const lists[] = { &server->admission.waiting, &server->loads };
    Request *request;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        while ((request = TAILQ_FIRST(lists[i])))
            request_fail(request, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN, server->config->drain_timeout_ms,
                         "", "the service is shutting down");
}

static void drain(Server *server) {
    struct timeval timeout = timeval_of(server->config->drain_timeout_ms);
    char status[512];

    log_notice(TOPIC_DAEMON, "shutting down: %u requests are running, %u wait",
               server->admission.n_active + server->admission.n_small, server->admission.n_waiting);
    server->draining = true;
    listener_set_close(&server->listeners);
    status_text(server, status, sizeof(status));
    notify_stopping(status, ((uint64_t)server->config->drain_timeout_ms + CANCEL_GRACE_MS + STOP_TIMEOUT_MS) * 1000);
    turn_away_waiting(server);
    if (evtimer_add(server->deadline, &timeout)) {
        log_error(TOPIC_DAEMON, "out of memory: leaving at once");
        event_base_loopbreak(server->loop.base);
    }
    server_pump(server);
}

static void on_change_of_setting(void *arg, const char *name, const char *from, const char *to, bool is_live) {
    log_notice(TOPIC_DAEMON, is_live ? "%s: %s -> %s" : "%s: %s -> %s needs a restart", name, *from ? from : "(none)",
               *to ? to : "(none)");
}

static void reload(Server *server) {
    _cleanup_(config_freep) Config *config = NULL;
    ConfigAction action;
    char status[512];
    ErrText err;

    notify_reloading();
    if (config_load(&config, "", server->argc, server->argv, &action, &err)) {
        log_error(TOPIC_DAEMON, "the configuration stays as it was: %s", err.text);
    } else {
        config_compare(server->config, config, on_change_of_setting, NULL);
        if (config_take_live(server->config, config))
            log_error(TOPIC_DAEMON, "out of memory: only a part of the settings was taken over");
        log_set_level((LogLevel)server->config->log_level);
        if (check_descriptors(server->config, &err))
            log_error(TOPIC_DAEMON, "%s", err.text);
        log_notice(TOPIC_DAEMON, "the configuration is reloaded");
    }
    status_text(server, status, sizeof(status));
    notify_ready(status);
    server_pump(server);
}

static void on_signal(evutil_socket_t number, short what, void *arg) {
    Server *server = arg;

    assert_on_loop(&server->loop);
    if (number == SIGHUP) {
        if (!server->draining)
            reload(server);
        return;
    }
    if (!server->draining) {
        drain(server);
        return;
    }
    log_notice(TOPIC_DAEMON, "second signal: leaving at once");
    event_base_loopbreak(server->loop.base);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Clients are taken in on the loop thread, which cannot evict what the engine thread keeps of prompts: models, running
 * generations and kept prompts leave them a part of memory-limit. */
static void keep_free_for_clients(AccountTable *accounts) {
    const uint64_t part = accounts->total_limit_bytes / CLIENTS_SHARE, wanted = accounts->limit_bytes[ACCOUNT_SESSIONS];

    accounts->others_limit_bytes = accounts->total_limit_bytes - (wanted < part ? wanted : part);
}

static void set_limits(AccountTable *accounts, const Config *config) {
    account_table_init(accounts);
    if (config->memory_limit_bytes)
        accounts->total_limit_bytes = config->memory_limit_bytes;
    if (config->kv_memory_limit_bytes)
        accounts->limit_bytes[ACCOUNT_KV] = config->kv_memory_limit_bytes;
    if (config->session_memory_limit_bytes)
        accounts->limit_bytes[ACCOUNT_SESSIONS] = config->session_memory_limit_bytes;
    if (config->memory_limit_bytes)
        keep_free_for_clients(accounts);
}

static unsigned int count_threads(const Config *config) {
    const unsigned int n = thread_n_processors();

    return config->threads ? config->threads : n > 256 ? 256 : n;
}

static int make_events(Server *server) {
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
    struct event_base *base = server->loop.base;

    server->outbox_event = event_new(base, outbox_fd(server->outbox), EV_READ | EV_PERSIST, on_news, server);
    server->settle = event_new(base, -1, 0, on_settle, server);
    server->scan = evtimer_new(base, on_scan, server);
    server->tick = evtimer_new(base, on_tick, server);
    server->deadline = evtimer_new(base, on_deadline, server);
    if (!server->outbox_event || !server->settle || !server->scan || !server->tick || !server->deadline ||
        event_add(server->outbox_event, NULL))
        return err_raise(-ENOMEM);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        server->signal_events[i] = evsignal_new(base, signals[i], on_signal, server);
        if (!server->signal_events[i] || event_add(server->signal_events[i], NULL))
            return err_raise(-ENOMEM);
    }
    if (notify_watchdog_us()) {
        struct timeval half = timeval_of(notify_watchdog_us() / 2000);

        server->watchdog = event_new(base, -1, EV_PERSIST, on_watchdog, server);
        if (!server->watchdog || event_add(server->watchdog, &half))
            return err_raise(-ENOMEM);
    }
    return 0;
}

static int add_models(Server *server, ErrText *err) {
    Model *model;
    int r;

    if (*server->config->model) {
        r = model_registry_add(&server->models, server->config->model, &model, err);
        if (r)
            return r < 0 ? r : -EINVAL;
        model->is_default = true;
        server->models.default_model = model;
    }
    if (model_folder_want(&server->folder))
        while (model_folder_step(&server->folder))
            ;
    return 0;
}

int server_new(Server **serverp, Config **configp, ListenerSet *listeners, int argc, char *const argv[], ErrText *err) {
    _cleanup_(server_freep) Server *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return err_set(err, -ENOMEM, "out of memory");
    server->config = steal(configp);
    server->argc = argc;
    server->argv = argv;
    server->started_ns = clock_now_ns();
    server->loop.thread = pthread_self();
    server->listeners = *listeners;
    listeners->n = 0;
    TAILQ_INIT(&server->connections);
    user_table_init(&server->users);
    TAILQ_INIT(&server->loads);
    TAILQ_INIT(&server->sessions);
    admission_init(&server->admission, server);
    set_limits(&server->accounts, server->config);
    model_registry_init(&server->models, &server->loop, server->config, &server->accounts, on_model_change, server);
    model_folder_init(&server->folder, &server->models);
    server->loop.base = event_base_new();
    if (!server->loop.base)
        return err_set(err, -ENOMEM, "cannot make an event loop");
    r = outbox_new(&server->outbox);
    if (r)
        return err_set(err, r, "cannot make an eventfd: %s", strerror(-r));
    r = check_descriptors(server->config, err);
    if (r)
        return r;
    server->n_threads = count_threads(server->config);
    r = engine_thread_new(&server->engine_thread, server->outbox, server->n_threads,
                          (WorkerPinning)server->config->pin_threads, err);
    if (r)
        return r;
    server->models.thread = server->engine_thread;
    r = server->config->prefix_cache_max_bytes
            ? prefix_cache_new(&server->prefix_cache, server->config->prefix_cache_max_bytes)
            : 0;
    if (r)
        return err_set(err, r, "out of memory");
    server->models.prefix_cache = server->prefix_cache;
    r = make_events(server);
    if (!r)
        r = listener_set_start(&server->listeners, &server->loop, on_accept, server);
    if (r)
        return err_set(err, r, "out of memory");
    r = add_models(server, err);
    if (r)
        return r;
    *serverp = steal(&server);
    return 0;
}

/* Whether all threads have ended: only then may what they use be freed. */
static int stop_engine(Server *server) {
    int r;

    if (!server->engine_thread)
        return 0;
    cut_all_short(server);
    r = engine_thread_stop(server->engine_thread, STOP_TIMEOUT_MS);
    if (r)
        return r;
    server->engine_ended = true;
    while (server_take_news(server))
        ;
    return 0;
}

Server *server_free(Server *server) {
    Connection *connection, *next;

    if (!server)
        return NULL;
    if (stop_engine(server))
        return server; /* server_run() has said so already; the memory goes with the process */
    for (connection = TAILQ_FIRST(&server->connections); connection; connection = next) {
        next = TAILQ_NEXT(connection, link);
        connection_free(connection);
    }
    listener_set_close(&server->listeners);
    model_folder_deinit(&server->folder);
    model_registry_deinit(&server->models);
    engine_thread_free(server->engine_thread);
    prefix_cache_free(server->prefix_cache);
    outbox_free(server->outbox);
    tally_table_deinit(&server->tallies);
    for (size_t i = 0; i < ARRAY_LEN(server->signal_events); i++)
        if (server->signal_events[i])
            event_free(server->signal_events[i]);
    if (server->outbox_event)
        event_free(server->outbox_event);
    if (server->settle)
        event_free(server->settle);
    if (server->scan)
        event_free(server->scan);
    if (server->tick)
        event_free(server->tick);
    if (server->deadline)
        event_free(server->deadline);
    if (server->watchdog)
        event_free(server->watchdog);
    if (server->loop.base)
        event_base_free(server->loop.base);
    config_free(server->config);
    free(server);
    return NULL;
}

int server_run(Server *server) {
    Model *model = model_registry_default(&server->models);
    char status[512];
    ErrText err;
    int r;

    assert_on_loop(&server->loop);
    for (size_t i = 0; i < server->listeners.n; i++)
        log_notice(TOPIC_DAEMON, "serving %s on %s",
                   server->listeners.listeners[i].is_admin ? "administrators" : "apps",
                   server->listeners.listeners[i].path ? server->listeners.listeners[i].path : "a socket from systemd");
    if (model)
        (void)model_load(model, &err);
    status_text(server, status, sizeof(status));
    notify_ready(status);
    if (event_base_dispatch(server->loop.base) < 0)
        return err_raise(-EIO);
    r = stop_engine(server);
    if (r)
        log_warn(TOPIC_DAEMON, "the engine thread is in a long step: leaving without it");
    else
        log_notice(TOPIC_DAEMON, "ended");
    return r;
}
