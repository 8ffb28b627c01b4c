// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "gateway/http/http_server.h"

#include <string.h>
#include <sys/socket.h>

#include "gateway/http/http_internal.h"

enum {
    CONNECTION_MEMORY_BYTES = 16 << 10, /* of headers, and of what is read and sent at a time */
};

static struct timeval timeval_of(uint64_t ms) {
    return (struct timeval){ .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000 };
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void run(HttpServer *server) {
    MHD_UNSIGNED_LONG_LONG wait_ms;
    struct timeval wait;

    MHD_run(server->mhd);
    if (MHD_get_timeout(server->mhd, &wait_ms) == MHD_YES) {
        wait = timeval_of(wait_ms);
        evtimer_add(server->timeout, &wait);
    } else {
        evtimer_del(server->timeout);
    }
}

static void on_run(evutil_socket_t fd, short what, void *arg) {
    run(arg);
}

void http_server_wake(HttpServer *server) {
    event_active(server->timeout, EV_TIMEOUT, 0);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static void wait_for(HttpConnection *connection, unsigned int ms) {
    struct timeval wait = timeval_of(ms);

    evtimer_add(connection->deadline, &wait);
}

static void on_hangup(evutil_socket_t fd, short what, void *arg) {
    HttpConnection *connection = arg;

    if (connection->exchange)
        exchange_abandon(connection->exchange);
    event_del(connection->hangup);
}

/* Ends a connection whose client takes too long to send. libmicrohttpd sees the end of the stream. */
static void on_deadline(evutil_socket_t fd, short what, void *arg) {
    HttpConnection *connection = arg;

    shutdown(connection->fd, SHUT_RDWR);
}

static void connection_free(HttpConnection *connection) {
    if (connection->hangup)
        event_free(connection->hangup);
    if (connection->deadline)
        event_free(connection->deadline);
    free(connection);
}

static HttpConnection *connection_new(HttpServer *server, struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    HttpConnection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return NULL;
    connection->server = server;
    connection->mhd = mhd;
    connection->fd = info->connect_fd;
    connection->hangup = event_new(server->base, connection->fd, EV_CLOSED | EV_ET, on_hangup, connection);
    connection->deadline = evtimer_new(server->base, on_deadline, connection);
    if (!connection->hangup || !connection->deadline || event_add(connection->hangup, NULL)) {
        connection_free(connection);
        return NULL;
    }
    wait_for(connection, server->limits.idle_ms);
    LIST_INSERT_HEAD(&server->connections, connection, link);
    server->n_connections++;
    return connection;
}

static void on_connection(void *arg, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
    HttpServer *server = arg;
    HttpConnection *connection = *socket_context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = connection_new(server, mhd);
    } else if (connection) {
        LIST_REMOVE(connection, link);
        server->n_connections--;
        connection_free(connection);
        *socket_context = NULL;
    }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void on_completed(void *arg, struct MHD_Connection *mhd, void **exchangep,
                         enum MHD_RequestTerminationCode code) {
    Exchange *exchange = *exchangep;

    if (!exchange)
        return;
    exchange->connection->exchange = NULL;
    wait_for(exchange->connection, exchange->connection->server->limits.idle_ms);
    *exchangep = exchange_free(exchange);
}

/* Takes a request whose headers have arrived. */
static enum MHD_Result begin(HttpServer *server, struct MHD_Connection *mhd, const char *path, const char *method,
                             void **exchangep) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    HttpConnection *connection = info->socket_context;
    Exchange *exchange;
    ApiError error;

    if (!connection)
        return MHD_NO;
    exchange = exchange_new(connection, method, path);
    if (!exchange)
        return MHD_NO;
    connection->exchange = *exchangep = exchange;
    wait_for(connection, server->limits.body_ms);
    if (server->ops->check(server->arg, exchange, &error))
        exchange_refuse(exchange, &error);
    return exchange->response ? exchange_continue(exchange) : MHD_YES;
}

/* Takes a part of the body. A body that is too long is refused as soon as that is known. */
static enum MHD_Result take(Exchange *exchange, const char *data, size_t *len_bytesp) {
    const size_t most_bytes = exchange->connection->server->limits.body_bytes;
    ApiError error;

    if (exchange->response) { /* refused: the rest is dropped */
        *len_bytesp = 0;
        return MHD_YES;
    }
    if (*len_bytesp > most_bytes - exchange->body.len_bytes) {
        api_error_set(&error, 413, "invalid_request_error", "request_too_large",
                      "the body is longer than %zu bytes (max-body): send less", most_bytes);
        exchange_refuse(exchange, &error);
    } else {
        str_buf_append(&exchange->body, data, *len_bytesp);
        if (str_buf_failed(&exchange->body))
            return MHD_NO;
    }
    *len_bytesp = 0;
    return MHD_YES;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *mhd, const char *path, const char *method,
                                  const char *version, const char *data, size_t *len_bytesp, void **exchangep) {
    HttpServer *server = arg;
    Exchange *exchange = *exchangep;

    if (!exchange)
        return begin(server, mhd, path, method, exchangep);
    if (*len_bytesp)
        return take(exchange, data, len_bytesp);
    if (exchange->state == EXCHANGE_ARRIVING && !exchange->response) {
        evtimer_del(exchange->connection->deadline);
        exchange->state = EXCHANGE_HANDLED;
        server->ops->handle(server->arg, exchange);
    }
    return exchange_continue(exchange);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int http_server_new(HttpServer **serverp, struct event_base *base, const HttpLimits *limits, const HttpOps *ops,
                    void *arg, ErrText *err) {
    _cleanup_(http_server_freep) HttpServer *server = calloc(1, sizeof(*server));
    const union MHD_DaemonInfo *info;

    if (!server)
        return err_no_memory(err);
    server->base = base;
    server->limits = *limits;
    server->ops = ops;
    server->arg = arg;
    server->mhd =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request,
                         server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
                         on_connection, server, MHD_OPTION_CONNECTION_LIMIT, limits->connections,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES,
                         MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    info = server->mhd ? MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info)
        return err_set(err, -ENOMEM, "libmicrohttpd cannot start: out of memory or of open files");
    server->arrival = event_new(base, info->epoll_fd, EV_READ | EV_PERSIST, on_run, server);
    server->timeout = evtimer_new(base, on_run, server);
    if (!server->arrival || !server->timeout || event_add(server->arrival, NULL))
        return err_no_memory(err);
    *serverp = steal(&server);
    return 0;
}

static void on_accept(evutil_socket_t fd, short what, void *arg) {
    HttpServer *server = arg;
    struct sockaddr_storage address;
    socklen_t len_bytes = sizeof(address);
    const int client = accept4(fd, (struct sockaddr *)&address, &len_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

    /* libmicrohttpd owns the socket, which it closes above the limit of connections. */
    if (client >= 0 && MHD_add_connection(server->mhd, client, (struct sockaddr *)&address, len_bytes) == MHD_YES)
        http_server_wake(server);
}

int http_server_listen(HttpServer *server, int fd) {
    struct event *event = event_new(server->base, fd, EV_READ | EV_PERSIST, on_accept, server);

    server->sockets[server->n_sockets].fd = fd;
    server->sockets[server->n_sockets++].event = event;
    return event && !event_add(event, NULL) ? 0 : err_raise(-ENOMEM);
}

HttpServer *http_server_free(HttpServer *server) {
    HttpConnection *connection;

    if (!server)
        return NULL;
    for (size_t i = 0; i < server->n_sockets; i++) {
        if (server->sockets[i].event)
            event_free(server->sockets[i].event);
        close(server->sockets[i].fd);
    }
    /* libmicrohttpd may not stop while a connection is suspended. */
    LIST_FOREACH (connection, &server->connections, link)
        if (connection->exchange)
            exchange_abandon(connection->exchange);
    if (server->mhd)
        MHD_stop_daemon(server->mhd);
    if (server->arrival)
        event_free(server->arrival);
    if (server->timeout)
        event_free(server->timeout);
    free(server);
    return NULL;
}
