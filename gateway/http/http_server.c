// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "gateway/http/http_server.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "gateway/http/head_check.h"
#include "gateway/http/http_connection.h"
#include "gateway/http/http_linger.h"

enum {
    CONNECTION_MEMORY_BYTES = 16 << 10, /* of headers, and of what is read and sent at a time */
    CLOSING_MAX = 64,                   /* connections that make room for others, until libmicrohttpd has closed them */
    ACCEPTS_AT_ONCE = 16,               /* before connections have their turn */
    RETRY_S = 1,                        /* after the process ran out of descriptors */
    RETRY_AFTER_MS = 1000,              /* that clients are told */
};

struct HttpServer {
    struct MHD_Daemon *mhd;
    struct event_base *base;
    struct event *arrival, *timeout;
    const HttpOps *ops;
    void *arg;
    HttpLimits limits;
    struct {
        struct event *event;
        int fd;
    } sockets[HTTP_SOCKETS_MAX];
    size_t n_sockets;
    struct event *retry; /* of accepting */
    bool is_draining;
    bool has_completed; /* a request, since the last run of libmicrohttpd began */
    LIST_HEAD(, HttpConnection) connections;
    struct HttpWaiting waiting; /* connections without a whole request, the longest waiting first */
    unsigned int n_closing;
    size_t bodies_bytes;
    HttpCounts counts;
    HttpLinger linger;
};

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void run_soon(HttpServer *server) {
    event_active(server->timeout, EV_TIMEOUT, 0);
}

static void run(HttpServer *server) {
    MHD_UNSIGNED_LONG_LONG wait_ms;
    struct timeval wait;

    server->has_completed = false;
    MHD_run(server->mhd);
    /* A connection that ends with its reply is closed by the next run, which libmicrohttpd does not ask for. */
    if (server->has_completed)
        run_soon(server);
    else if (MHD_get_timeout(server->mhd, &wait_ms) == MHD_YES) {
        wait = (struct timeval){ .tv_sec = (time_t)(wait_ms / 1000), .tv_usec = (suseconds_t)(wait_ms % 1000) * 1000 };
        evtimer_add(server->timeout, &wait);
    } else {
        evtimer_del(server->timeout);
    }
}

static void on_run(evutil_socket_t fd, short what, void *arg) {
    run(arg);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static HttpConnection *begin_connection(HttpServer *server, struct MHD_Connection *mhd) {
    HttpConnection *connection = http_connection_new(server->base, mhd, &server->limits, server->timeout);

    if (!connection)
        return NULL;
    connection->server = server;
    LIST_INSERT_HEAD(&server->connections, connection, link);
    http_connection_await(connection, &server->waiting);
    server->counts.connections++;
    server->counts.all_connections++;
    return connection;
}

static void end_connection(HttpServer *server, HttpConnection *connection) {
    const int fd = connection->is_refused ? fcntl(connection->fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (fd >= 0)
        http_linger_add(&server->linger, fd);
    LIST_REMOVE(connection, link);
    http_connection_stop_waiting(connection, &server->waiting);
    server->n_closing -= connection->is_closing;
    http_connection_free(connection);
    server->counts.connections--;
    if (!server->counts.connections && server->ops->on_empty)
        server->ops->on_empty(server->arg);
}

static void on_connection(void *arg, struct MHD_Connection *mhd, void **contextp,
                          enum MHD_ConnectionNotificationCode code) {
    HttpServer *server = arg;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *contextp = begin_connection(server, mhd);
    } else if (*contextp) {
        end_connection(server, *contextp);
        *contextp = NULL;
    }
}

static HttpConnection *connection_of(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Closes a connection that waits for a request, or for the rest of one. libmicrohttpd sees the end of the stream. */
static void close_waiting(HttpServer *server, HttpConnection *connection) {
    http_connection_stop_waiting(connection, &server->waiting);
    connection->is_closing = true;
    server->n_closing++;
    shutdown(connection->fd, SHUT_RDWR);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void on_completed(void *arg, struct MHD_Connection *mhd, void **exchangep,
                         enum MHD_RequestTerminationCode code) {
    HttpServer *server = arg;
    HttpConnection *connection = connection_of(mhd);
    Exchange *exchange = *exchangep;

    server->has_completed = true;
    if (connection)
        connection->has_nul = false;
    if (!exchange)
        return;
    server->bodies_bytes -= exchange->body.len_bytes;
    server->counts.requests -= exchange->is_counted;
    connection->exchange = NULL;
    if (!connection->is_closing)
        http_connection_await(connection, &server->waiting);
    *exchangep = exchange_free(exchange);
    if (server->is_draining && !connection->is_closing)
        close_waiting(server, connection);
}

static void *on_target(void *arg, const char *target, struct MHD_Connection *mhd) {
    const HttpServer *server = arg;
    HttpConnection *connection = connection_of(mhd);

    if (connection) {
        connection->has_nul = head_check_has_nul(target);
        connection->has_begun = true;
        http_connection_wait(connection, server->limits.head_ms);
    }
    return NULL;
}

/* Refuses a request that no handler has. What the client still sends of it is not read. */
static void refuse(HttpServer *server, Exchange *exchange, const ApiError *error) {
    server->counts.refused_requests++;
    if (exchange->state == EXCHANGE_ARRIVING) {
        exchange->connection->is_refused = true;
        exchange_set_header(exchange, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    exchange_refuse(exchange, error);
}

static int check(HttpServer *server, Exchange *exchange, ApiError *error) {
    HttpConnection *connection = exchange->connection;
    int r = head_check(connection->mhd, exchange->path, connection->has_nul, server->limits.body_bytes, error);

    if (!r && server->is_draining) {
        r = api_error_set(error, 503, "unavailable_error", "shutting_down", "the gateway is shutting down: try again");
        error->retry_after_ms = RETRY_AFTER_MS;
    }
    return r ? r : server->ops->check(server->arg, exchange, error);
}

/* Takes a request whose head has arrived. */
static enum MHD_Result begin(HttpServer *server, struct MHD_Connection *mhd, const char *path, const char *method,
                             void **exchangep) {
    HttpConnection *connection = connection_of(mhd);
    Exchange *exchange;
    ApiError error;

    if (!connection || connection->is_closing)
        return MHD_NO;
    exchange = exchange_new(connection, method, path);
    if (!exchange)
        return MHD_NO;
    connection->exchange = *exchangep = exchange;
    connection->has_begun = false;
    http_connection_wait(connection, server->limits.body_ms);
    if (!check(server, exchange, &error))
        return MHD_YES;
    http_connection_stop_waiting(connection, &server->waiting);
    refuse(server, exchange, &error);
    return exchange_continue(exchange);
}

static int busy(ApiError *error, const char *what) {
    api_error_set(error, 503, "overloaded_error", "busy", "the gateway has too many %s at a time: try again", what);
    error->retry_after_ms = RETRY_AFTER_MS;
    return API_E_REFUSED;
}

/* Takes a part of the body. A body that grows too long is dropped, and refused at its end. */
static enum MHD_Result take(HttpServer *server, Exchange *exchange, const char *data, size_t *len_bytesp) {
    const size_t len_bytes = *len_bytesp;
    ApiError error;
    int r = 0;

    *len_bytesp = 0;
    if (exchange->state != EXCHANGE_ARRIVING) /* refused: the rest is dropped */
        return exchange->state == EXCHANGE_BROKEN ? MHD_NO : MHD_YES;
    if (len_bytes > server->limits.body_bytes - exchange->body.len_bytes)
        r = head_check_too_long(server->limits.body_bytes, &error);
    else if (len_bytes > server->limits.bodies_bytes - server->bodies_bytes)
        r = busy(&error, "bytes of requests");
    if (r) {
        http_connection_stop_waiting(exchange->connection, &server->waiting);
        refuse(server, exchange, &error);
        return MHD_YES;
    }
    str_buf_append(&exchange->body, data, len_bytes);
    if (str_buf_failed(&exchange->body))
        return MHD_NO;
    server->bodies_bytes += len_bytes;
    return MHD_YES;
}

/* Gives a whole request to the handler, and lets the body go afterwards. */
static void handle(HttpServer *server, Exchange *exchange) {
    ApiError error;

    http_connection_stop_waiting(exchange->connection, &server->waiting);
    http_connection_wait(exchange->connection, 0);
    exchange->state = EXCHANGE_HANDLED;
    if (server->counts.requests >= server->limits.requests) {
        busy(&error, "requests");
        refuse(server, exchange, &error);
        return;
    }
    exchange->is_counted = true;
    server->counts.requests++;
    server->counts.all_requests++;
    server->ops->handle(server->arg, exchange);
    server->bodies_bytes -= exchange->body.len_bytes;
    str_buf_deinit(&exchange->body);
    exchange->body = STR_BUF_NULL;
    if (server->is_draining)
        exchange_set_header(exchange, MHD_HTTP_HEADER_CONNECTION, "close");
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *mhd, const char *path, const char *method,
                                  const char *version, const char *data, size_t *len_bytesp, void **exchangep) {
    HttpServer *server = arg;
    Exchange *exchange = *exchangep;

    if (!exchange)
        return begin(server, mhd, path, method, exchangep);
    if (*len_bytesp)
        return take(server, exchange, data, len_bytesp);
    if (exchange->state == EXCHANGE_ARRIVING)
        handle(server, exchange);
    return exchange_continue(exchange);
}

/* ---- listening sockets ------------------------------------------------------------------------------------------- */

/* Makes room for a new connection. The one that has waited longest for a whole request goes: a client that opens
 * connections without asking anything takes them from itself. */
static bool has_room(HttpServer *server) {
    if (server->counts.connections - server->n_closing < server->limits.connections)
        return true;
    if (TAILQ_EMPTY(&server->waiting) || server->n_closing >= CLOSING_MAX)
        return false;
    server->counts.evicted_connections++;
    close_waiting(server, TAILQ_FIRST(&server->waiting));
    return true;
}

void http_server_serve(HttpServer *server, int fd) {
    static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
                               "Content-Length: 0\r\n\r\n";
    struct sockaddr_storage address = { .ss_family = AF_UNIX };
    socklen_t len_bytes = sizeof(address);

    if (!has_room(server)) {
        server->counts.refused_connections++;
        (void)send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        http_linger_add(&server->linger, fd);
        return;
    }
    (void)getpeername(fd, (struct sockaddr *)&address, &len_bytes);
    /* libmicrohttpd owns the socket, even if the call fails. */
    MHD_add_connection(server->mhd, fd, (struct sockaddr *)&address, len_bytes);
    run_soon(server);
}

static void accept_again(evutil_socket_t fd, short what, void *arg) {
    HttpServer *server = arg;

    for (size_t i = 0; i < server->n_sockets; i++)
        event_add(server->sockets[i].event, NULL);
}

/* Stops accepting for a moment, after descriptors or memory ran out: the client stays in the backlog, and a retry at
 * once would spin. */
static void pause_accepting(HttpServer *server) {
    static const struct timeval pause = { .tv_sec = RETRY_S };

    log_warn(TOPIC_HTTP, "cannot accept a connection: %s: trying again in %d s", strerror(errno), RETRY_S);
    if (evtimer_add(server->retry, &pause))
        return;
    for (size_t i = 0; i < server->n_sockets; i++)
        event_del(server->sockets[i].event);
}

static void on_accept(evutil_socket_t listening, short what, void *arg) {
    HttpServer *server = arg;

    for (unsigned int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        const int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            http_server_serve(server, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
            pause_accepting(server);
            return;
        }
    }
}

int http_server_listen(HttpServer *server, int fd) {
    struct event *event = event_new(server->base, fd, EV_READ | EV_PERSIST, on_accept, server);

    server->sockets[server->n_sockets].fd = fd;
    server->sockets[server->n_sockets++].event = event;
    return event && !event_add(event, NULL) ? 0 : err_raise(-ENOMEM);
}

static void close_sockets(HttpServer *server) {
    for (size_t i = 0; i < server->n_sockets; i++) {
        if (server->sockets[i].event)
            event_free(server->sockets[i].event);
        close(server->sockets[i].fd);
    }
    server->n_sockets = 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static struct MHD_Daemon *start_mhd(HttpServer *server) {
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                            on_request, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_URI_LOG_CALLBACK, on_target,
                            server, MHD_OPTION_CONNECTION_LIMIT, server->limits.connections + CLOSING_MAX,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES,
                            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
}

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
    TAILQ_INIT(&server->waiting);
    http_linger_init(&server->linger, base);
    server->mhd = start_mhd(server);
    info = server->mhd ? MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info)
        return err_set(err, -ENOMEM, "libmicrohttpd cannot start: out of memory or of open files");
    server->arrival = event_new(base, info->epoll_fd, EV_READ | EV_PERSIST, on_run, server);
    server->timeout = evtimer_new(base, on_run, server);
    server->retry = evtimer_new(base, accept_again, server);
    if (!server->arrival || !server->timeout || !server->retry || event_add(server->arrival, NULL))
        return err_no_memory(err);
    *serverp = steal(&server);
    return 0;
}

void http_server_drain(HttpServer *server) {
    HttpConnection *connection;

    server->is_draining = true;
    close_sockets(server);
    LIST_FOREACH (connection, &server->connections, link)
        if (connection->exchange)
            exchange_set_header(connection->exchange, MHD_HTTP_HEADER_CONNECTION, "close");
        else if (!connection->is_closing)
            close_waiting(server, connection);
    if (!server->counts.connections && server->ops->on_empty)
        server->ops->on_empty(server->arg);
}

void http_server_counts(const HttpServer *server, HttpCounts *counts) {
    *counts = server->counts;
}

HttpServer *http_server_free(HttpServer *server) {
    HttpConnection *connection;

    if (!server)
        return NULL;
    close_sockets(server);
    /* libmicrohttpd may not stop while a connection is suspended. */
    LIST_FOREACH (connection, &server->connections, link)
        if (connection->exchange)
            exchange_abandon(connection->exchange);
    if (server->arrival)
        event_free(server->arrival);
    if (server->mhd)
        MHD_stop_daemon(server->mhd);
    http_linger_deinit(&server->linger);
    if (server->timeout)
        event_free(server->timeout);
    if (server->retry)
        event_free(server->retry);
    free(server);
    return NULL;
}
