// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a client's socket into an evbuffer. A bufferevent reads without room for control messages, which would lose
 * open files.
 *
 * On a stream socket the kernel delivers a descriptor together with bytes of the message that carried it, and ends the
 * read with them. The same read may begin with earlier bytes. The last byte of the read was therefore sent with the
 * descriptor, and a client that sends a descriptor only with bytes of one frame says which frame it belongs to.
 */
#define _GNU_SOURCE
#include "daemon/net/inlet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

enum {
    ROOM_DESCRIPTORS = 2 /* tells one from more; the kernel closes descriptors without room */
};

int inlet_init(Inlet *inlet) {
    *inlet = (Inlet){ .fd = -1, .bytes = evbuffer_new() };
    return inlet->bytes ? 0 : -ENOMEM;
}

void inlet_deinit(Inlet *inlet) {
    if (inlet->bytes) /* an inlet without a buffer was never initialized and owns no descriptor */
        closep(&inlet->fd);
    if (inlet->bytes)
        evbuffer_free(inlet->bytes);
    *inlet = (Inlet){ .fd = -1 };
}

/* Takes the message's descriptor over. Return: false if the message brought more than one. */
static bool keep_descriptor(Inlet *inlet, struct msghdr *message) {
    bool is_one = !(message->msg_flags & MSG_CTRUNC) || !message->msg_control;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
            if (inlet->fd < 0) {
                inlet->fd = fd;
                inlet->fd_at_bytes = inlet->received_bytes;
            } else {
                is_one = false;
                close(fd);
            }
        }
    }
    return is_one;
}

/**
 * inlet_read() - read the bytes that have arrived
 * @max_bytes:       at least 1
 * @take_descriptor: if false, the kernel drops open files that arrive. Only trusted clients may hand over a file,
 *                   because its close can block as long as its owner likes (a user's file system, a lingering socket)
 *
 * Thread: loop.
 */
int inlet_read(Inlet *inlet, int socket_fd, size_t max_bytes, bool take_descriptor) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(ROOM_DESCRIPTORS * sizeof(int))];
    } control;
    struct evbuffer_iovec space;
    struct iovec iov;
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t n;

    if (evbuffer_reserve_space(inlet->bytes, (ev_ssize_t)max_bytes, &space, 1) != 1)
        return err_raise(-ENOMEM);
    iov = (struct iovec){ .iov_base = space.iov_base, .iov_len = max_bytes };
    if (take_descriptor) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.room);
    }
    n = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (n == 0)
        return INLET_E_END;
    space.iov_len = (size_t)n;
    evbuffer_commit_space(inlet->bytes, &space, 1);
    inlet->received_bytes += (uint64_t)n;
    return keep_descriptor(inlet, &message) ? 0 : INLET_E_DESCRIPTORS;
}

int inlet_take_fd(Inlet *inlet, size_t len_bytes) {
    const uint64_t end_bytes = inlet->received_bytes - evbuffer_get_length(inlet->bytes) + len_bytes;

    return inlet->fd >= 0 && inlet->fd_at_bytes <= end_bytes ? steal_fd(&inlet->fd) : -1;
}
