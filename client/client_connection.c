// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/system/c_library.h"
#include "client/client_internal.h"
#include "client/service_socket.h"
#include "proto/proto_check.h"
#include "proto/wire_check.h"

/* Writes the default path of the socket. A set-user-id program ignores the environment. */
static void socket_path_default(char *path, size_t room_bytes) {
    const char *given = c_library_secure_getenv("COORDGEN_SOCKET");

    if (given && *given)
        snprintf(path, room_bytes, "%s", given);
    else
        service_socket_path("api.sock", path, room_bytes);
}

static int connect_failed(CoordgenClient *client, int error) {
    switch (error) {
    case ENOENT:
    case ECONNREFUSED:
        return client_fail(client, COORDGEN_E_UNREACHABLE, "", 0, "%s: no service there (%s): is coordgend running?",
                           client->socket_path, strerror(error));
    case EACCES:
    case EPERM:
        return client_fail(client, COORDGEN_E_DENIED, "", 0, "%s: %s: the user must be in the group of the socket",
                           client->socket_path, strerror(error));
    case EAGAIN:
        return client_fail(client, COORDGEN_E_BUSY, "", 100, "%s: more connections are waiting than the service takes",
                           client->socket_path);
    default:
        return client_fail(client, COORDGEN_E_UNREACHABLE, "", 0, "%s: %s", client->socket_path, strerror(error));
    }
}

/* Moves a descriptor above the standard numbers. A program may have closed those, and its printed text would go into
 * the connection. */
static int above_standard(int fd) {
    int other;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    other = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    return other;
}

static void drop_file(CoordgenClient *client) {
    closep(&client->out.fd);
    client->out.fd = -1;
}

/* Puts the socket under the descriptor that the user waits for, and starts a clean stream on it. */
static int connection_begin(CoordgenClient *client, int *fdp) {
    struct epoll_event interest = { .events = EPOLLIN };

    if (client->epoll_fd < 0)
        client->epoll_fd = above_standard(epoll_create1(EPOLL_CLOEXEC));
    if (client->epoll_fd < 0 || epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, *fdp, &interest) < 0)
        return client_fail(client, COORDGEN_E_NO_MEMORY, "", 0, "epoll: %s", strerror(errno));
    frame_reader_deinit(&client->reader);
    client->greeted = false;
    client->service_version[0] = 0;
    pthread_mutex_lock(&client->lock);
    client->socket_fd = steal_fd(fdp);
    client->state = CLIENT_CONNECTED;
    client->out.is_wanted = client->out.is_broken = false;
    str_buf_deinit(&client->out.bytes);
    client->out.at_bytes = 0;
    drop_file(client);
    pthread_mutex_unlock(&client->lock);
    return 0;
}

int client_connection_adopt(CoordgenClient *client, int fd) {
    _cleanup_(closep) int owned = fd;
    int flags = fcntl(fd, F_GETFL), type = 0;
    socklen_t len_bytes = sizeof(type);

    if (client->state == CLIENT_CONNECTED)
        return client_fail(client, COORDGEN_E_WRONG_STATE, "", 0, "the client is connected already");
    if (flags < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len_bytes) < 0 || type != SOCK_STREAM)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "", 0, "descriptor %d is no stream socket", fd);
    if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "", 0, "descriptor %d: %s", fd, strerror(errno));
    snprintf(client->socket_path, sizeof(client->socket_path), "descriptor %d", fd);
    return connection_begin(client, &owned);
}

/**
 * client_connection_open() - connect to the socket, without blocking past the deadline
 * @deadline_ns: bounds the wait for room in the listener's queue; 0: no wait
 *
 * Return: 0 or a CoordgenError. A client may try again after a failure.
 */
int client_connection_open(CoordgenClient *client, const char *socket_path, uint64_t deadline_ns) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    _cleanup_(closep) int fd = -1;

    if (client->state == CLIENT_CONNECTED)
        return client_fail(client, COORDGEN_E_WRONG_STATE, "", 0, "the client is connected already");
    if (socket_path && *socket_path)
        snprintf(client->socket_path, sizeof(client->socket_path), "%s", socket_path);
    else
        socket_path_default(client->socket_path, sizeof(client->socket_path));
    if (strlen(client->socket_path) >= sizeof(address.sun_path))
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "", 0,
                           "%.64s...: the path of a socket has at most %zu bytes", client->socket_path,
                           sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, client->socket_path, strlen(client->socket_path) + 1);
    fd = above_standard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return client_fail(client, COORDGEN_E_NO_MEMORY, "", 0, "socket: %s", strerror(errno));
    while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        /* A Unix socket has no "in progress": EAGAIN means that the listener's queue is full. */
        if (errno != EINTR && (errno != EAGAIN || clock_now_ns() >= deadline_ns))
            return connect_failed(client, errno);
        (void)poll(NULL, 0, 5);
    }
    return connection_begin(client, &fd);
}

/* Closes the socket; the caller ends the requests that are left. */
void client_connection_close(CoordgenClient *client) {
    pthread_mutex_lock(&client->lock);
    if (client->socket_fd >= 0) {
        /* Removed explicitly: a copy in a forked process would keep the closed socket in the set. */
        (void)epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, client->socket_fd, NULL);
        close(client->socket_fd);
    }
    client->socket_fd = -1;
    if (client->state == CLIENT_CONNECTED)
        client->state = CLIENT_DEAD;
    pthread_mutex_unlock(&client->lock);
}

static void want_out_set(CoordgenClient *client, bool want_out) {
    struct epoll_event interest = { .events = EPOLLIN | (want_out ? EPOLLOUT : 0) };

    if (client->out.is_wanted == want_out)
        return;
    client->out.is_wanted = want_out;
    (void)epoll_ctl(client->epoll_fd, EPOLL_CTL_MOD, client->socket_fd, &interest);
}

/* Sends once. An open file goes with the first bytes of its own frame and of no other, so that the service knows which
 * request the file belongs to. */
static ssize_t send_some(CoordgenClient *client) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    const bool has_file = client->out.fd >= 0,
               with_file = has_file && client->out.at_bytes == client->out.fd_begin_bytes;
    const size_t end_bytes = with_file  ? client->out.fd_end_bytes
                             : has_file ? client->out.fd_begin_bytes
                                        : client->out.bytes.len_bytes;
    struct iovec iov = { .iov_base = client->out.bytes.data + client->out.at_bytes,
                         .iov_len = end_bytes - client->out.at_bytes };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t n;

    if (with_file) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.room);
        *CMSG_FIRSTHDR(&message) =
            (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &client->out.fd, sizeof(int));
    }
    n = sendmsg(client->socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0 && with_file)
        drop_file(client);
    return n;
}

void client_flush_locked(CoordgenClient *client) {
    while (client->out.at_bytes < client->out.bytes.len_bytes && !client->out.is_broken) {
        ssize_t n = send_some(client);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            want_out_set(client, true);
            return;
        }
        /* A service that hangs up may have sent the reason, which the reader finds before the end. */
        if (n < 0)
            client->out.is_broken = true;
        else
            client->out.at_bytes += (size_t)n;
    }
    str_buf_truncate(&client->out.bytes, 0);
    client->out.at_bytes = 0;
    drop_file(client);
    if (client->out.bytes.room_bytes > 65536)
        str_buf_deinit(&client->out.bytes);
    want_out_set(client, false);
}

/* Drops sent bytes when they fill more than half of the buffer: the buffer holds at most twice the waiting bytes, and
 * each byte is moved about once. */
static void drop_sent(CoordgenClient *client) {
    StrBuf *out = &client->out.bytes;
    size_t left_bytes = out->len_bytes - client->out.at_bytes;

    if (client->out.at_bytes <= out->len_bytes / 2)
        return;
    memmove(out->data, out->data + client->out.at_bytes, left_bytes);
    str_buf_truncate(out, left_bytes);
    client->out.fd_begin_bytes -= client->out.fd >= 0 ? client->out.at_bytes : 0;
    client->out.fd_end_bytes -= client->out.fd >= 0 ? client->out.at_bytes : 0;
    client->out.at_bytes = 0;
}

static int failure_set(ClientFailure *failure, int code, const char *field, const char *text) {
    *failure = (ClientFailure){ .code = code };
    snprintf(failure->field, sizeof(failure->field), "%s", field);
    snprintf(failure->err.text, sizeof(failure->err.text), "%s", text);
    return code;
}

int client_send_locked(CoordgenClient *client, Coordgen__V1__Request *message, int fd, ClientFailure *failure) {
    _cleanup_(freep) uint8_t *frame = NULL;
    _cleanup_(closep) int own_fd = -1;
    size_t len_bytes;
    FrameFault fault = { 0 };
    ErrText err = { 0 };
    int r;

    if (proto_check_request(message, &fault))
        return failure_set(failure, COORDGEN_E_INVALID_ARGUMENT, fault.field, fault.err.text);
    r = frame_encode(&message->base, &frame, &len_bytes, &err);
    if (r)
        return failure_set(failure, r == FRAME_E_TOO_LARGE ? COORDGEN_E_TOO_LARGE : COORDGEN_E_NO_MEMORY, "", err.text);
    /* The service would refuse the frame too; the check here tells the caller at once. */
    if (wire_check(frame + FRAME_HEADER_BYTES, len_bytes - FRAME_HEADER_BYTES, &coordgen__v1__request__descriptor, true,
                   &fault))
        return failure_set(failure, COORDGEN_E_INVALID_ARGUMENT, fault.field, fault.err.text);
    if (fd >= 0 && client->out.fd < 0 && (own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return failure_set(failure, COORDGEN_E_NO_MEMORY, "", "too many files are open");
    if (client->out.bytes.len_bytes - client->out.at_bytes + len_bytes > CLIENT_OUT_BYTES_MAX ||
        (fd >= 0 && client->out.fd >= 0)) {
        failure_set(failure, COORDGEN_E_BUSY, "", "more requests wait to be sent than the service takes");
        failure->retry_after_ms = 100;
        return COORDGEN_E_BUSY;
    }
    drop_sent(client);
    str_buf_append(&client->out.bytes, frame, len_bytes);
    if (str_buf_failed(&client->out.bytes))
        return failure_set(failure, COORDGEN_E_NO_MEMORY, "", "out of memory for a request");
    if (own_fd >= 0) {
        client->out.fd = steal_fd(&own_fd);
        client->out.fd_end_bytes = client->out.bytes.len_bytes;
        client->out.fd_begin_bytes = client->out.bytes.len_bytes - len_bytes;
    }
    client_flush_locked(client);
    return 0;
}
