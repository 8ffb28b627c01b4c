// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/http_linger.h"

#include <sys/socket.h>

#include "base/cleanup.h"

enum {
    SOCKETS_MAX = 16,
    LINGER_S = 2,
    READ_BYTES = 64 << 10, /* at a time, before other connections have their turn */
    LINGER_BYTES_MAX = 128 << 20,
};

typedef struct LingerSocket {
    HttpLinger *linger;
    int fd;
    struct event *arrival, *end;
    size_t read_bytes;
    LIST_ENTRY(LingerSocket) link;
} LingerSocket;

static LingerSocket *socket_free(LingerSocket *socket) {
    if (!socket)
        return NULL;
    if (socket->arrival)
        event_free(socket->arrival);
    if (socket->end)
        event_free(socket->end);
    close(socket->fd);
    free(socket);
    return NULL;
}
DEFINE_CLEANUP(LingerSocket, socket_free)

static void drop(LingerSocket *socket) {
    LIST_REMOVE(socket, link);
    socket->linger->n--;
    socket_free(socket);
}

static void on_arrival(evutil_socket_t fd, short what, void *arg) {
    static char unread[READ_BYTES];
    LingerSocket *socket = arg;
    const ssize_t n = recv(fd, unread, sizeof(unread), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    socket->read_bytes += n > 0 ? (size_t)n : 0;
    if (n <= 0 || socket->read_bytes > LINGER_BYTES_MAX)
        drop(socket);
}

static void on_end(evutil_socket_t fd, short what, void *arg) {
    drop(arg);
}

void http_linger_init(HttpLinger *linger, struct event_base *base) {
    *linger = (HttpLinger){ .base = base };
    LIST_INIT(&linger->sockets);
}

void http_linger_deinit(HttpLinger *linger) {
    while (!LIST_EMPTY(&linger->sockets))
        drop(LIST_FIRST(&linger->sockets));
}

void http_linger_add(HttpLinger *linger, int fd) {
    static const struct timeval time = { .tv_sec = LINGER_S };
    _cleanup_(socket_freep) LingerSocket *socket = calloc(1, sizeof(*socket));

    if (!socket) {
        close(fd);
        return;
    }
    *socket = (LingerSocket){ .linger = linger, .fd = fd };
    if (linger->n == SOCKETS_MAX || shutdown(fd, SHUT_WR) < 0)
        return;
    socket->arrival = event_new(linger->base, fd, EV_READ | EV_PERSIST, on_arrival, socket);
    socket->end = evtimer_new(linger->base, on_end, socket);
    if (!socket->arrival || !socket->end || event_add(socket->arrival, NULL) || event_add(socket->end, &time))
        return;
    LIST_INSERT_HEAD(&linger->sockets, socket, link);
    linger->n++;
    steal(&socket);
}
