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
#include "base/log_rate.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "base/strings/printable.h"
#include "daemon/handlers/handlers.h"
#include "daemon/handlers/handlers_list.h"
#include "daemon/net/places.h"
#include "base/service/notify.h"
#include "daemon/requests/request.h"
#include "daemon/requests/request_queue.h"

enum {
    TICK_MS = 250,
    TICK_DRAINING_MS = 50,
    CANCEL_GRACE_MS = 2000, /* after the drain timeout: time for clients to read the last messages */
    DESCRIPTORS_BESIDE_CLIENTS = 64,
    CONNECTIONS_MIN = 4,
};

#define STATUS_INTERVAL_NS (UINT64_C(1000) * 1000 * 1000)

static struct timeval timeval_of(uint64_t ms) {
    return (struct timeval){ .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000 };
}

/* ---- status ------------------------------------------------------------------------------------------------------ */

static void status_text(const Server *server, char *text, size_t room_bytes) {
    const Model *model = model_registry_default(&server->service.models);

    if (server->service.draining)
        snprintf(text, room_bytes, "Shutting down: %u requests are running",
                 server->service.requests.admission.n_active + server->service.requests.admission.n_small);
    else if (!model)
        snprintf(text, room_bytes, "Serving, no %smodel", server->service.models.n_models ? "default " : "");
    else if (model->stage == MODEL_IMPORTING)
        snprintf(text, room_bytes, "Serving, model %.*s: importing, %u %%", UTF8_PREFIX(model->name, 64),
                 model->load.permille / 10);
    else if (model->stage == MODEL_LOADING)
        snprintf(text, room_bytes, "Serving, model %.*s: loading, %u %%", UTF8_PREFIX(model->name, 64),
                 model->load.permille / 10);
    else if (model->stage == MODEL_FAILED)
        snprintf(text, room_bytes, "Serving, model %.*s: failed: %.*s", UTF8_PREFIX(model->name, 64),
                 UTF8_PREFIX(model->failure_text.text, 256));
    else
        snprintf(text, room_bytes, "Serving, model %.*s: %s", UTF8_PREFIX(model->name, 64),
                 model_stage_name(model->stage));
}

static void show_status(Server *server) {
    const Model *model = model_registry_default(&server->service.models);
    uint64_t now_ns = clock_now_ns();
    char text[512];

    /* The import's percentage is sent once a second, any other change at once. */
    if (model && model->stage == MODEL_IMPORTING && now_ns - server->status_ns < STATUS_INTERVAL_NS)
        return;
    server->status_ns = now_ns;
    status_text(server, text, sizeof(text));
    notify_status(text);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static void on_accept(void *arg, int fd, bool is_admin) {
    Server *server = arg;
    UserTable *users = &server->service.users;
    Peer *peer;
    uid_t uid;
    pid_t pid;
    char held[160];
    int r = connection_peer(fd, &uid, &pid);

    if (r) {
        log_warn(TOPIC_DAEMON, "a connection is closed: its user is not known: %s", strerror(-r));
        close(fd);
        return;
    }
    r = places_make(users, is_admin, uid);
    if (r == PLACES_E_FULL) {
        log_info_of(uid, TOPIC_DAEMON, "uid %u: refused: all connections are in use", (unsigned int)uid);
        connection_refuse(fd, COORDGEN__V1__ERROR_CODE__ERROR_CODE_BUSY,
                          admission_retry_ms(&server->service.requests.admission),
                          "all connections are in use (max-connections): try again later");
        return;
    }
    if (r == PLACES_E_USER) {
        log_info_of(uid, TOPIC_DAEMON, "uid %u: refused: max-connections-per-uid is reached", (unsigned int)uid);
        connection_refuse(fd, COORDGEN__V1__ERROR_CODE__ERROR_CODE_QUOTA_EXCEEDED,
                          admission_retry_ms(&server->service.requests.admission),
                          "this user has too many connections (max-connections-per-uid): close some");
        return;
    }
    r = peer_new(&peer, users, fd, is_admin, &handlers_ops, &server->service);
    if (r > 0) {
        account_holders(&server->service.accounts, held, sizeof(held));
        log_warn_of(uid, TOPIC_DAEMON,
                    "uid %u: refused: no memory within session-memory-limit or memory-limit; held: %s",
                    (unsigned int)uid, held);
    } else if (r) {
        log_warn_of(uid, TOPIC_DAEMON, "uid %u: refused: %s", (unsigned int)uid, strerror(-r));
    }
}

/* Checks the limit on open files against max-connections, so that a low limit shows at the start and not under load.
 * Return: 0, or -EMFILE if the limit allows too few connections. */
int server_check_descriptors(Config *config, ErrText *err) {
    const rlim_t beside = ADMIN_CONNECTIONS_MAX + DESCRIPTORS_BESIDE_CLIENTS,
                 wanted = (rlim_t)config->limits.max_connections + beside;
    const uint32_t min = MIN(config->limits.max_connections, CONNECTIONS_MIN);
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
             (uint64_t)limit.rlim_cur, possible, config->limits.max_connections, (uint64_t)wanted);
    config->limits.max_connections = possible;
    return 0;
}

/* ---- the loop's work --------------------------------------------------------------------------------------------- */

static void arm_tick(Server *server) {
    struct timeval after = timeval_of(server->service.draining ? TICK_DRAINING_MS : TICK_MS);

    if ((server->service.draining || server->service.requests.admission.n_waiting ||
         admission_n_resting(&server->service.requests.admission)) &&
        !evtimer_pending(server->tick, NULL) && evtimer_add(server->tick, &after))
        log_error(TOPIC_DAEMON, "out of memory: waiting requests hear nothing until the next one ends");
}

/* Starts the timer of suppressed log lines, which runs only while there are counts to log. */
static void arm_log_rate(Server *server) {
    static const struct timeval after = { .tv_sec = LOG_RATE_INTERVAL_S };

    if (!event_pending(server->log_rate, EV_TIMEOUT, NULL) && log_rate_flush(clock_now_ns(), false) &&
        evtimer_add(server->log_rate, &after))
        (void)log_rate_flush(clock_now_ns(), true); /* no memory for the timer: log the counts now */
}

/* Wakes the loop to log the counts. Thread: any. */
static void on_log_count(void *outbox) {
    outbox_call(outbox);
}

static void on_log_rate(evutil_socket_t fd, short what, void *arg) {
    arm_log_rate(arg);
}

static void on_settle(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;

    assert_on_loop(&server->service.loop);
    service_settle(&server->service);
    show_status(server);
    arm_tick(server);
    if (server->service.draining && service_is_drained(&server->service))
        event_base_loopbreak(server->service.loop.base);
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;

    request_queue_tick(&server->service.requests);
    on_settle(fd, what, arg);
}

static void on_constraints(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;

    request_on_constraints(&server->service.requests);
}

static void on_news(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;

    assert_on_loop(&server->service.loop);
    if (service_take_news(&server->service))
        outbox_call(server->service.outbox);
    arm_log_rate(server);
}

/* ---- watchdog ---------------------------------------------------------------------------------------------------- */

/* Pings the watchdog. The callback itself shows that the loop is alive; the engine thread is alive if it is idle or has
 * made progress within step-timeout. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;
    EngineThreadPulse pulse = engine_thread_pulse(server->service.engine_thread);
    uint64_t now_ns = clock_now_ns();
    bool late;

    if (pulse.n_beats != server->beats_seen || !pulse.busy_since_ns) {
        server->beats_seen = pulse.n_beats;
        server->beat_ns = now_ns;
    }
    late = (now_ns - server->beat_ns) / 1000000 > server->service.config->timeouts.step_ms;
    if (!late)
        notify_watchdog_ping();
    else if (!server->was_late)
        log_error(TOPIC_DAEMON, "the engine thread has been in one operator for %" PRIu64 " s: the watchdog is not fed",
                  (now_ns - server->beat_ns) / 1000000000);
    server->was_late = late;
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    Server *server = arg;
    struct timeval grace = timeval_of(CANCEL_GRACE_MS);

    if (server->was_cancelled) {
        log_warn(TOPIC_DAEMON, "some clients do not read their last messages: leaving");
        event_base_loopbreak(server->service.loop.base);
        return;
    }
    server->was_cancelled = true;
    log_notice(TOPIC_DAEMON, "drain-timeout has passed: %u running requests are cancelled",
               server->service.requests.admission.n_active + server->service.requests.admission.n_small);
    request_cut_short_all(&server->service.requests);
    if (evtimer_add(server->deadline, &grace))
        event_base_loopbreak(server->service.loop.base);
}

static void drain(Server *server) {
    struct timeval timeout = timeval_of(server->service.config->timeouts.drain_ms);
    char status[512];

    log_notice(TOPIC_DAEMON, "shutting down: %u requests are running, %u wait",
               server->service.requests.admission.n_active + server->service.requests.admission.n_small,
               server->service.requests.admission.n_waiting);
    server->service.draining = true;
    listener_set_close(&server->listeners);
    status_text(server, status, sizeof(status));
    notify_stopping(status,
                    ((uint64_t)server->service.config->timeouts.drain_ms + CANCEL_GRACE_MS + SERVICE_STOP_MS) * 1000);
    request_turn_away_all(&server->service.requests);
    if (evtimer_add(server->deadline, &timeout)) {
        log_error(TOPIC_DAEMON, "out of memory: leaving at once");
        event_base_loopbreak(server->service.loop.base);
    }
    loop_pump(&server->service.loop);
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
        config_compare(server->service.config, config, on_change_of_setting, NULL);
        if (config_take_live(server->service.config, config))
            log_error(TOPIC_DAEMON, "out of memory: only a part of the settings was taken over");
        log_set_level(server->service.config->log_level);
        if (service_take_settings(&server->service))
            log_error(TOPIC_DAEMON, "out of memory: no-history or draft-model stays as it was");
        if (server_check_descriptors(server->service.config, &err))
            log_error(TOPIC_DAEMON, "%s", err.text);
        service_warn_sections(&server->service);
        log_notice(TOPIC_DAEMON, "the configuration is reloaded");
    }
    status_text(server, status, sizeof(status));
    notify_ready(status);
    loop_pump(&server->service.loop);
}

static void on_signal(evutil_socket_t number, short what, void *arg) {
    Server *server = arg;

    assert_on_loop(&server->service.loop);
    if (number == SIGHUP) {
        if (!server->service.draining)
            reload(server);
        return;
    }
    if (!server->service.draining) {
        drain(server);
        return;
    }
    log_notice(TOPIC_DAEMON, "second signal: leaving at once");
    event_base_loopbreak(server->service.loop.base);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int make_events(Server *server) {
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
    struct event_base *base = server->service.loop.base;

    server->outbox_event = event_new(base, outbox_fd(server->service.outbox), EV_READ | EV_PERSIST, on_news, server);
    if (server->service.drafts.store) {
        server->draft_event = event_new(base, draft_store_fd(server->service.drafts.store), EV_READ | EV_PERSIST,
                                        handler_on_draft_answers, &server->service);
        if (!server->draft_event || event_add(server->draft_event, NULL))
            return err_raise(-ENOMEM);
    }
    server->constraint_event =
        event_new(base, constraint_store_fd(server->service.constraints), EV_READ | EV_PERSIST, on_constraints, server);
    if (!server->constraint_event || event_add(server->constraint_event, NULL))
        return err_raise(-ENOMEM);
    server->service.loop.settle = event_new(base, -1, 0, on_settle, server);
    server->service.scan = evtimer_new(base, handler_on_scan, &server->service);
    server->tick = evtimer_new(base, on_tick, server);
    server->log_rate = evtimer_new(base, on_log_rate, server);
    server->deadline = evtimer_new(base, on_deadline, server);
    if (!server->outbox_event || !server->service.loop.settle || !server->service.scan || !server->tick ||
        !server->log_rate || !server->deadline || event_add(server->outbox_event, NULL))
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

int server_new(Server **serverp, Config **configp, ListenerSet *listeners, int argc, char *const argv[], ErrText *err) {
    _cleanup_(server_freep) Server *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return err_no_memory(err);
    server->argc = argc;
    server->argv = argv;
    server->listeners = *listeners;
    listeners->n = 0;
    r = service_init(&server->service, configp, err);
    if (!r)
        r = server_check_descriptors(server->service.config, err);
    if (r)
        return r;
    r = make_events(server);
    if (!r)
        r = listener_set_start(&server->listeners, &server->service.loop, on_accept, server);
    if (r)
        return err_set(err, r, "out of memory");
    r = service_add_models(&server->service, err);
    if (!r)
        r = service_start_draft_store(&server->service, err);
    if (r)
        return r;
    log_rate_start(on_log_count, server->service.outbox);
    *serverp = steal(&server);
    return 0;
}

Server *server_free(Server *server) {
    if (!server)
        return NULL;
    log_rate_stop();
    if (service_stop(&server->service))
        return server; /* server_run() has logged the reason; the process ends with the memory */
    listener_set_close(&server->listeners);
    for (size_t i = 0; i < ARRAY_LEN(server->signal_events); i++)
        if (server->signal_events[i])
            event_free(server->signal_events[i]);
    if (server->outbox_event)
        event_free(server->outbox_event);
    if (server->draft_event)
        event_free(server->draft_event);
    if (server->constraint_event)
        event_free(server->constraint_event);
    if (server->tick)
        event_free(server->tick);
    if (server->log_rate)
        event_free(server->log_rate);
    if (server->deadline)
        event_free(server->deadline);
    if (server->watchdog)
        event_free(server->watchdog);
    service_deinit(&server->service);
    free(server);
    return NULL;
}

int server_run(Server *server) {
    char status[512];
    int r;

    assert_on_loop(&server->service.loop);
    for (size_t i = 0; i < server->listeners.n; i++)
        log_notice(TOPIC_DAEMON, "serving %s on %s",
                   server->listeners.listeners[i].is_admin ? "administrators" : "apps",
                   server->listeners.listeners[i].path ? server->listeners.listeners[i].path : "a socket from systemd");
    service_load_first(&server->service);
    status_text(server, status, sizeof(status));
    notify_ready(status);
    if (event_base_dispatch(server->service.loop.base) < 0)
        return err_raise(-EIO);
    r = service_stop(&server->service);
    log_rate_stop(); /* no part that could log many lines is left */
    if (r)
        log_warn(TOPIC_DAEMON, "a thread is in a long step, or waits for the disk: leaving without it");
    else
        log_notice(TOPIC_DAEMON, "ended");
    return r;
}
