// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/files/paths.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "client/service_socket.h"

enum {
    CONNECT_TIMEOUT_MS = 10000
};

/* Reports a failure on standard error; with --json also as an object on standard output, so that a program reads one
 * stream only. */
int ctl_failed(Ctl *ctl, int code, const char *message, const char *field, uint32_t retry_after_ms) {
    char wait[32];

    ctl_progress_clear(ctl);
    if (ctl->json)
        ctl_json_print(ctl, ctl_json_error(code, message, field, retry_after_ms));
    fflush(stdout);
    fputs("coordgenctl: ", stderr);
    ctl_put_text(stderr, *message ? message : coordgen_error_name(code), true);
    if (retry_after_ms)
        fprintf(stderr, " (try again in %s)", ctl_duration_text(wait, sizeof(wait), (uint64_t)retry_after_ms * 1000));
    fputc('\n', stderr);
    return ctl_exit_status(code, retry_after_ms);
}

int ctl_failed_call(Ctl *ctl) {
    return ctl_failed(ctl, coordgen_client_error(ctl->client), coordgen_client_message(ctl->client),
                      coordgen_client_field(ctl->client), coordgen_client_retry_after_ms(ctl->client));
}

/* Writes the path of admin.sock in the folder of the api socket. Returns whether the path fits. */
static bool admin_path(const char *api_path, char *path, size_t room_bytes) {
    const char *given = api_path ? api_path : getenv("COORDGEN_SOCKET"), *slash;

    if (!given || !*given) {
        service_socket_path("admin.sock", path, room_bytes);
        return true;
    }
    if (!strcmp(given, PATH_API_SOCKET))
        return (size_t)snprintf(path, room_bytes, "%s", PATH_ADMIN_SOCKET) < room_bytes;
    slash = strrchr(given, '/');
    return (size_t)snprintf(path, room_bytes, "%.*sadmin.sock", slash ? (int)(slash - given + 1) : 0, given) <
           room_bytes;
}

const char *ctl_socket(const Ctl *ctl) {
    return ctl_text(ctl, "socket", ctl_has(ctl, "system-socket") ? PATH_API_SOCKET : NULL);
}

int ctl_connect(Ctl *ctl) {
    const char *path = ctl_socket(ctl);
    char admin[512];
    int r;

    if (ctl_has(ctl, "admin-socket")) {
        if (!admin_path(path, admin, sizeof(admin)))
            return ctl_usage_error(ctl, "--socket: the path is too long");
        path = admin;
    }
    if (coordgen_client_new(&ctl->client)) {
        fputs("coordgenctl: out of memory\n", stderr);
        return CTL_EXIT_FAILED;
    }
    /* Interrupts open before any request, because the service may begin one before its start returns. */
    if (!coordgen_client_connect(ctl->client, path, CONNECT_TIMEOUT_MS))
        return ctl_interrupts_open(ctl);
    r = ctl_failed_call(ctl);
    ctl_hint_connect(ctl, coordgen_client_error(ctl->client));
    return r;
}

int ctl_interrupts_open(Ctl *ctl) {
    sigset_t set;

    if (ctl->signal_fd >= 0)
        return 0;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) || (ctl->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0) {
        fprintf(stderr, "coordgenctl: signalfd: %s\n", strerror(errno));
        return CTL_EXIT_FAILED;
    }
    return 0;
}

bool ctl_interrupted(Ctl *ctl) {
    struct signalfd_siginfo info;

    return ctl->signal_fd >= 0 && read(ctl->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info);
}

int ctl_wait_event(void *arg, const CoordgenEvent *event) {
    CtlWait *wait = arg;

    if (event->kind != COORDGEN_EVENT_END)
        return wait->fn ? wait->fn(wait->arg, event) : 0;
    wait->reply = coordgen_reply_ref(event->reply);
    wait->ended = true;
    return 0;
}

/**
 * ctl_wait() - run the connection until the request has ended
 * @started: the result of _start()
 *
 * The first Ctrl-C asks the service to end the request; reading goes on, so that no text is lost. The second Ctrl-C
 * ends the wait at once.
 */
int ctl_wait(Ctl *ctl, CtlWait *wait, int started) {
    if (started)
        return ctl_failed_call(ctl);
    while (!wait->ended) {
        struct pollfd fds[] = {
            { .fd = coordgen_client_fd(ctl->client), .events = coordgen_client_events(ctl->client) },
            { .fd = ctl->signal_fd, .events = POLLIN },
        };

        (void)poll(fds, ARRAY_LEN(fds), coordgen_client_timeout_ms(ctl->client));
        if (ctl_interrupted(ctl)) {
            if (wait->interrupted)
                return CTL_EXIT_INTERRUPTED;
            wait->interrupted = true;
            (void)coordgen_cancel(ctl->client, 0);
        }
        (void)coordgen_client_dispatch(ctl->client); /* a failure has ended the request with its reason */
    }
    return 0;
}

/* Reports a failed reply. A request that Ctrl-C cancelled has the exit status of Ctrl-C, whatever the error. */
int ctl_failed_reply(Ctl *ctl, const CtlWait *wait) {
    CoordgenReply *reply = wait->reply;
    int r;

    r = ctl_failed(ctl, coordgen_reply_error(reply), coordgen_reply_message(reply), coordgen_reply_field(reply),
                   coordgen_reply_retry_after_ms(reply));
    return wait->interrupted ? CTL_EXIT_INTERRUPTED : r;
}

void ctl_wait_deinit(CtlWait *wait) {
    coordgen_reply_unref(wait->reply);
    *wait = (CtlWait){ 0 };
}
