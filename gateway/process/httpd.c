// SPDX-License-Identifier: Apache-2.0
#include "gateway/process/httpd.h"

#include <signal.h>
#include <stdio.h>

#include "base/service/notify.h"
#include "gateway/gateway.h"
#include "gateway/process/httpd_log.h"
#include "gateway/process/httpd_sockets.h"

typedef struct Httpd {
    Gateway gateway;
    HttpdSettings *settings;
    HttpdSockets sockets;
    struct event *signals[2];
    struct event *watchdog; /* NULL: there is none */
    struct event *idle;     /* no client has been connected for a time; NULL: the process stays */
    struct event *deadline; /* of requests that run at the end */
    bool is_draining;
} Httpd;

static struct timeval seconds(uint32_t s) {
    return (struct timeval){ .tv_sec = (time_t)s };
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void leave(Httpd *httpd) {
    event_base_loopbreak(httpd->gateway.base);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    HttpCounts counts;
    Httpd *httpd = arg;

    http_server_counts(httpd->gateway.http, &counts);
    log_notice(TOPIC_HTTP, "drain-timeout has passed: %u running requests are cancelled", counts.requests);
    leave(httpd);
}

static void drain(Httpd *httpd) {
    const struct timeval limit = seconds(httpd->settings->drain_s);
    HttpCounts counts;

    http_server_counts(httpd->gateway.http, &counts);
    log_notice(TOPIC_HTTP, "shutting down: %u requests are running", counts.requests);
    notify_stopping("Shutting down", ((uint64_t)httpd->settings->drain_s + 5) * 1000000);
    httpd->is_draining = true;
    if (evtimer_add(httpd->deadline, &limit))
        leave(httpd);
    for (size_t i = 0; i < httpd->sockets.n; i++)
        unix_socket_unlink(&httpd->sockets.sockets[i].file);
    http_server_drain(httpd->gateway.http);
}

static void on_signal(evutil_socket_t number, short what, void *arg) {
    Httpd *httpd = arg;

    if (!httpd->is_draining) {
        drain(httpd);
        return;
    }
    log_notice(TOPIC_HTTP, "second signal: leaving at once");
    leave(httpd);
}

/* ---- clients come and go ----------------------------------------------------------------------------------------- */

static void await_clients(Httpd *httpd) {
    const struct timeval limit = seconds(httpd->settings->exit_s);

    if (httpd->idle)
        (void)evtimer_add(httpd->idle, &limit);
}

static void on_empty(void *arg) {
    Httpd *httpd = arg;

    if (httpd->is_draining)
        leave(httpd);
    else
        await_clients(httpd);
}

/* Ends the process, unless a client has come meanwhile. A client that comes from now on waits at systemd's socket,
 * which starts the next process. */
static void on_idle(evutil_socket_t fd, short what, void *arg) {
    Httpd *httpd = arg;
    HttpCounts counts;

    http_server_counts(httpd->gateway.http, &counts);
    if (counts.connections)
        return;
    log_info(TOPIC_HTTP, "no client for %u s: ending", httpd->settings->exit_s);
    leave(httpd);
}

static void on_watchdog(evutil_socket_t fd, short what, void *arg) {
    notify_watchdog_ping();
}

/* Blocks or unblocks the signals that end the process. */
static void mask_signals(int how) {
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(how, &set, NULL);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int make_events(Httpd *httpd) {
    static const int numbers[] = { SIGTERM, SIGINT };
    struct event_base *base = httpd->gateway.base;
    const uint64_t watchdog_us = notify_watchdog_us();
    const struct timeval half = { .tv_sec = (time_t)(watchdog_us / 2000000),
                                  .tv_usec = (suseconds_t)(watchdog_us / 2 % 1000000) };

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        httpd->signals[i] = evsignal_new(base, numbers[i], on_signal, httpd);
        if (!httpd->signals[i] || event_add(httpd->signals[i], NULL))
            return err_raise(-ENOMEM);
    }
    httpd->deadline = evtimer_new(base, on_deadline, httpd);
    if (!httpd->deadline)
        return err_raise(-ENOMEM);
    if (watchdog_us) {
        httpd->watchdog = event_new(base, -1, EV_PERSIST, on_watchdog, httpd);
        if (!httpd->watchdog || event_add(httpd->watchdog, &half))
            return err_raise(-ENOMEM);
    }
    if (httpd->settings->exit_s) {
        httpd->idle = evtimer_new(base, on_idle, httpd);
        if (!httpd->idle)
            return err_raise(-ENOMEM);
    }
    return 0;
}

static int listen_all(Httpd *httpd) {
    int r = 0;

    for (size_t i = 0; !r && i < httpd->sockets.n; i++) {
        log_notice(TOPIC_HTTP, "serving on %s", httpd->sockets.sockets[i].name);
        r = http_server_listen(httpd->gateway.http, steal_fd(&httpd->sockets.sockets[i].fd));
    }
    return r;
}

static int start(Httpd *httpd, ErrText *err) {
    Gateway *gateway = &httpd->gateway;
    HttpdSettings *settings = httpd->settings;
    HttpLimits limits;
    int r;

    if (settings->token_file && token_set_read(&gateway->access.tokens, settings->token_file, err))
        return HTTPD_E_SETTINGS;
    gateway->takes_any_model = settings->takes_any_model;
    gateway->access.hosts = settings->hosts;
    gateway->access.origins = settings->origins;
    r = httpd_sockets_open(&httpd->sockets, settings, err);
    if (!r)
        r = httpd_settings_fit(settings, err);
    if (r)
        return r > 0 ? HTTPD_E_SETTINGS : r;
    gateway->base = event_base_new();
    if (!gateway->base || link_new(&gateway->link, gateway->base, settings->socket) || make_events(httpd))
        return err_no_memory(err);
    httpd_settings_limits(settings, &limits);
    r = http_server_new(&gateway->http, gateway->base, &limits, &gateway_ops, gateway, err);
    if (r)
        return r;
    return listen_all(httpd) ? err_no_memory(err) : 0;
}

static void stop(Httpd *httpd) {
    struct event *const events[] = { httpd->signals[0], httpd->signals[1], httpd->watchdog, httpd->idle,
                                     httpd->deadline };

    /* The server ends first: it cancels the requests of its clients, and the link then waits for their ends. */
    httpd->gateway.on_empty = NULL;
    http_server_free(httpd->gateway.http);
    link_free(httpd->gateway.link);
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        if (events[i])
            event_free(events[i]);
    httpd_sockets_close(&httpd->sockets);
    token_set_free(httpd->gateway.access.tokens);
    if (httpd->gateway.base)
        event_base_free(httpd->gateway.base);
}

int httpd_run(HttpdSettings *settings, ErrText *err) {
    Httpd httpd = { .settings = settings, .gateway = { .on_empty = on_empty } };
    int r;

    httpd.gateway.on_empty_arg = &httpd;
    /* No signal is lost before there are handlers, and none ends the process in the middle of its end: a blocked signal
     * waits even where it is ignored. */
    mask_signals(SIG_BLOCK);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    r = start(&httpd, err);
    if (!r) {
        mask_signals(SIG_UNBLOCK);
        notify_ready("Serving");
        await_clients(&httpd);
        r = event_base_dispatch(httpd.gateway.base) < 0 ? err_raise(-EIO) : 0;
        if (!r)
            log_notice(TOPIC_HTTP, "ended");
    }
    stop(&httpd);
    return r;
}
