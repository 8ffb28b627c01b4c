// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "gateway/http/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/cleanup.h"

/* Whether the client has closed its side, or the connection is broken. libevent reports a broken connection as bytes
 * that have arrived, so the socket itself is asked. */
static bool has_gone(int fd) {
    struct pollfd state = { .fd = fd, .events = POLLRDHUP };

    return poll(&state, 1, 0) > 0 && state.revents;
}

static void on_activity(evutil_socket_t fd, short what, void *arg) {
    HttpConnection *connection = arg;
    const Exchange *exchange = connection->exchange;

    if (has_gone(connection->fd)) {
        connection->is_gone = true;
        event_del(connection->activity);
        /* Before the handler has the request, libmicrohttpd reads what the client sent before it closed its side. A
         * reply that is whole goes out as far as the client takes it. */
        if (exchange && (exchange->state == EXCHANGE_HANDLED || exchange->state == EXCHANGE_STREAMS))
            exchange_abandon(connection->exchange);
        else if (!exchange || exchange->state == EXCHANGE_ARRIVING)
            http_connection_wait(connection, connection->limits->body_ms);
    }
}

/* Ends a connection whose client takes too long. libmicrohttpd sees the end of the stream. A client in the middle of a
 * request is told why; no byte of a reply has been sent to such a client. */
static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    static const char reply[] = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    HttpConnection *connection = arg;
    const Exchange *exchange = connection->exchange;

    if (exchange ? exchange->state == EXCHANGE_ARRIVING : connection->has_begun)
        (void)send(connection->fd, reply, sizeof(reply) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(connection->fd, SHUT_RDWR);
}

static bool is_unix(int fd) {
    int domain = 0;
    socklen_t len_bytes = sizeof(domain);

    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len_bytes) && domain == AF_UNIX;
}

HttpConnection *http_connection_free(HttpConnection *connection) {
    if (!connection)
        return NULL;
    if (connection->activity)
        event_free(connection->activity);
    if (connection->deadline)
        event_free(connection->deadline);
    free(connection);
    return NULL;
}

HttpConnection *http_connection_new(struct event_base *base, struct MHD_Connection *mhd, const HttpLimits *limits,
                                    struct event *wake) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    HttpConnection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return NULL;
    connection->mhd = mhd;
    connection->limits = limits;
    connection->wake = wake;
    connection->fd = info->connect_fd;
    connection->is_local = is_unix(connection->fd);
    /* By edges: libmicrohttpd reads the bytes, not this event. */
    connection->activity =
        event_new(base, connection->fd, EV_READ | EV_CLOSED | EV_ET | EV_PERSIST, on_activity, connection);
    connection->deadline = evtimer_new(base, on_deadline, connection);
    if (!connection->activity || !connection->deadline || event_add(connection->activity, NULL))
        return http_connection_free(connection);
    return connection;
}

void http_connection_await(HttpConnection *connection, struct HttpWaiting *waiting) {
    http_connection_stop_waiting(connection, waiting);
    TAILQ_INSERT_TAIL(waiting, connection, waiting);
    connection->is_waiting = true;
    connection->has_begun = false;
    http_connection_wait(connection, connection->limits->idle_ms);
}

void http_connection_stop_waiting(HttpConnection *connection, struct HttpWaiting *waiting) {
    if (connection->is_waiting)
        TAILQ_REMOVE(waiting, connection, waiting);
    connection->is_waiting = false;
}
