// SPDX-License-Identifier: Apache-2.0
/* The connections to the service. The service limits the requests of a connection (max-requests-per-connection), so
 * there are as many connections as the requests that wait need. */
#include "gateway/service/link.h"

#include <poll.h>

#include "base/clock.h"
#include "base/err.h"

enum {
    CONNECTIONS_MAX = 32,         /* a quarter of what the service permits a user (max-connections-per-uid) */
    REQUESTS_PER_CONNECTION = 60, /* below the service's default of 64: a cancelled request counts until its end */
    RETRY_AFTER_MS = 1000,        /* that clients are told while there is no service */
    END_MS = 2000,                /* for the service to end requests, at the gateway's own end */
};

typedef struct LinkConnection {
    Link *link;
    CoordgenClient *client; /* NULL: never needed */
    struct event *arrival;  /* NULL: the client has no descriptor yet */
    struct event *timeout;
    bool is_connected; /* or connecting */
} LinkConnection;

struct Link {
    const char *socket_path;
    struct event_base *base;
    LinkConnection connections[CONNECTIONS_MAX];
};

static void settle(LinkConnection *connection) {
    const int wait_ms = connection->is_connected ? coordgen_client_timeout_ms(connection->client) : -1;
    const struct timeval wait = { .tv_sec = wait_ms / 1000, .tv_usec = (suseconds_t)(wait_ms % 1000) * 1000 };

    if (wait_ms < 0)
        evtimer_del(connection->timeout);
    else
        evtimer_add(connection->timeout, &wait);
}

static void on_arrival(evutil_socket_t fd, short what, void *arg) {
    LinkConnection *connection = arg;

    /* After the end of a connection every request has had its last event; the next request connects again. */
    if (connection->is_connected && coordgen_client_dispatch(connection->client))
        connection->is_connected = false;
    settle(connection);
}

int link_new(Link **linkp, struct event_base *base, const char *socket_path) {
    Link *link = calloc(1, sizeof(*link));

    if (!link)
        return err_raise(-ENOMEM);
    link->socket_path = socket_path;
    link->base = base;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        link->connections[i].link = link;
    *linkp = link;
    return 0;
}

/* Ends the requests that are left and waits for their last events, which free what waits for them. */
static void end_requests(LinkConnection *connection, uint64_t end_ms) {
    struct pollfd wait = { .fd = coordgen_client_fd(connection->client), .events = POLLIN };
    uint64_t now_ms;

    (void)coordgen_cancel(connection->client, 0);
    while (coordgen_client_n_in_flight(connection->client) && (now_ms = clock_now_ns() / 1000000) < end_ms) {
        (void)poll(&wait, 1, (int)(end_ms - now_ms));
        if (coordgen_client_dispatch(connection->client))
            return;
    }
}

Link *link_free(Link *link) {
    const uint64_t end_ms = clock_now_ns() / 1000000 + END_MS;

    if (!link)
        return NULL;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        LinkConnection *connection = &link->connections[i];

        if (connection->is_connected)
            end_requests(connection, end_ms);
        if (connection->arrival)
            event_free(connection->arrival);
        if (connection->timeout)
            event_free(connection->timeout);
        coordgen_client_free(connection->client);
    }
    free(link);
    return NULL;
}

/* Makes the client of a connection that is needed for the first time. */
static int make_client(LinkConnection *connection) {
    if (!connection->timeout)
        connection->timeout = evtimer_new(connection->link->base, on_arrival, connection);
    if (!connection->timeout || (!connection->client && coordgen_client_new(&connection->client)))
        return err_raise(-ENOMEM);
    return coordgen_client_set_name(connection->client, "coordgen-httpd") ? err_raise(-ENOMEM) : 0;
}

/* Waits for what arrives; the descriptor stays the same for all connections of the client. */
static int watch(LinkConnection *connection) {
    if (connection->arrival)
        return 0;
    connection->arrival = event_new(connection->link->base, coordgen_client_fd(connection->client),
                                    EV_READ | EV_PERSIST, on_arrival, connection);
    return connection->arrival && !event_add(connection->arrival, NULL) ? 0 : err_raise(-ENOMEM);
}

static int refuse(const CoordgenClient *client, ApiError *error) {
    api_error_of_service(error, coordgen_client_error(client), coordgen_client_message(client), NULL,
                         coordgen_client_retry_after_ms(client));
    if (!error->retry_after_ms && error->status == 503)
        error->retry_after_ms = RETRY_AFTER_MS;
    return API_E_REFUSED;
}

static int open_connection(LinkConnection *connection, ApiError *error) {
    if (make_client(connection))
        return api_error_no_memory(error);
    if (coordgen_client_connect_start(connection->client, connection->link->socket_path))
        return refuse(connection->client, error);
    connection->is_connected = true;
    return watch(connection) ? api_error_no_memory(error) : 0;
}

int link_client(Link *link, CoordgenClient **clientp, ApiError *error) {
    LinkConnection *spare = NULL;
    int r;

    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        LinkConnection *connection = &link->connections[i];

        if (!connection->is_connected) {
            spare = spare ? spare : connection;
        } else if (connection->arrival && coordgen_client_n_in_flight(connection->client) < REQUESTS_PER_CONNECTION) {
            *clientp = connection->client;
            return 0;
        }
    }
    if (!spare) {
        api_error_set(error, 503, "overloaded_error", "busy", "the gateway has %d requests at the service: try again",
                      CONNECTIONS_MAX * REQUESTS_PER_CONNECTION);
        error->retry_after_ms = RETRY_AFTER_MS;
        return API_E_REFUSED;
    }
    r = open_connection(spare, error);
    if (!r)
        *clientp = spare->client;
    return r;
}

void link_settle(Link *link) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (link->connections[i].is_connected)
            settle(&link->connections[i]);
}
