// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/net/refusal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/systemd/activation.h"
#include "daemon/net/connection.h"
#include "base/service/notify.h"

/* Time that a failed start spends on refusals. A connection that nobody accepts starts the service again at once, and
 * beyond the service manager's limit of 5 starts in 10 s the manager would close the sockets. */
#define REFUSE_MS 3000
#define RETRY_MS 60000

void refusal_prepare(ListenerSet *spare) {
    ActivationSet given;

    *spare = (ListenerSet){ 0 };
    (void)activation_look(&given, NULL); /* listener_set_open() says what is wrong */
    for (size_t i = 0; i < given.n; i++) {
        int copy = fcntl(given.sockets[i].fd, F_DUPFD_CLOEXEC, given.fds_end);

        if (copy < 0)
            continue;
        evutil_make_socket_nonblocking(copy);
        spare->listeners[spare->n++] = (Listener){ .fd = copy };
    }
}

static void refuse_all(int listener_fd) {
    int fd;

    while ((fd = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        connection_refuse(fd, COORDGEN__V1__ERROR_CODE__ERROR_CODE_SHUTTING_DOWN, RETRY_MS,
                          "the service cannot start: its log says why (journalctl -u coordgend)");
}

void refusal_serve(ListenerSet *spare, const char *reason) {
    const uint64_t end_ms = clock_now_ns() / 1000000 + REFUSE_MS;
    struct pollfd fds[LISTENERS_MAX];
    uint64_t now_ms;

    if (spare->n)
        notify_status(reason);
    for (size_t i = 0; i < spare->n; i++)
        fds[i] = (struct pollfd){ .fd = spare->listeners[i].fd, .events = POLLIN };
    while (spare->n && (now_ms = clock_now_ns() / 1000000) < end_ms) {
        if (poll(fds, spare->n, (int)(end_ms - now_ms)) < 0)
            continue; /* interrupted by a signal */
        for (size_t i = 0; i < spare->n; i++)
            if (fds[i].revents & POLLIN)
                refuse_all(fds[i].fd);
    }
    listener_set_close(spare);
}
