// SPDX-License-Identifier: Apache-2.0
#include "gateway/service/link.h"

#include "base/err.h"

struct Link {
    const char *socket_path;
    struct event_base *base;
    CoordgenClient *client;
    struct event *arrival; /* NULL: the client has no descriptor yet */
    struct event *timeout;
    bool is_connected; /* or connecting */
};

static void dispatch(Link *link) {
    /* After the end of a connection every request has had its last event; the next request connects again. */
    if (coordgen_client_dispatch(link->client))
        link->is_connected = false;
    link_settle(link);
}

static void on_arrival(evutil_socket_t fd, short what, void *arg) {
    dispatch(arg);
}

int link_new(Link **linkp, struct event_base *base, const char *socket_path) {
    _cleanup_(link_freep) Link *link = calloc(1, sizeof(*link));

    if (!link)
        return err_raise(-ENOMEM);
    link->socket_path = socket_path;
    link->base = base;
    link->timeout = evtimer_new(base, on_arrival, link);
    if (!link->timeout || coordgen_client_new(&link->client))
        return err_raise(-ENOMEM);
    (void)coordgen_client_set_name(link->client, "coordgen-httpd");
    *linkp = steal(&link);
    return 0;
}

Link *link_free(Link *link) {
    if (!link)
        return NULL;
    if (link->arrival)
        event_free(link->arrival);
    if (link->timeout)
        event_free(link->timeout);
    coordgen_client_free(link->client);
    free(link);
    return NULL;
}

/* Waits for what arrives; the descriptor stays the same for all connections of the client. */
static int watch(Link *link) {
    if (link->arrival)
        return 0;
    link->arrival = event_new(link->base, coordgen_client_fd(link->client), EV_READ | EV_PERSIST, on_arrival, link);
    return link->arrival && !event_add(link->arrival, NULL) ? 0 : err_raise(-ENOMEM);
}

int link_client(Link *link, CoordgenClient **clientp, ApiError *error) {
    if (!link->is_connected && coordgen_client_connect_start(link->client, link->socket_path))
        return api_error_of_service(error, coordgen_client_error(link->client), coordgen_client_message(link->client),
                                    NULL, 0);
    link->is_connected = true;
    if (watch(link))
        return api_error_no_memory(error);
    *clientp = link->client;
    return 0;
}

void link_settle(Link *link) {
    const int wait_ms = coordgen_client_timeout_ms(link->client);
    struct timeval wait = { .tv_sec = wait_ms / 1000, .tv_usec = (suseconds_t)(wait_ms % 1000) * 1000 };

    if (wait_ms < 0)
        evtimer_del(link->timeout);
    else
        evtimer_add(link->timeout, &wait);
}
