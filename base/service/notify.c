// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/service/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strings/decimal.h"

/* A service manager that reads slowly must not block the loop; sd_notify() itself would wait without limit. */
#define IMPORTANT_WAIT_S 1

static char last_status[512]; /* loop thread */

/**
 * send_state() - send one datagram of sd_notify(3) assignments to the service manager
 * @is_important: waits up to IMPORTANT_WAIT_S for room in the manager's queue; any other message is dropped without
 *                room
 *
 * Return: whether the datagram was sent, or no manager listens.
 */
static bool send_state(const char *state, bool is_important) {
    static const struct timeval wait = { .tv_sec = IMPORTANT_WAIT_S };
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    _cleanup_(closep) int fd = -1;
    size_t path_bytes;

    if (!path || (*path != '/' && *path != '@'))
        return true;
    path_bytes = strlen(path);
    if (path_bytes >= sizeof(to.sun_path))
        return true;
    memcpy(to.sun_path, path, path_bytes);
    if (*path == '@')
        to.sun_path[0] = 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0)
        return false;
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL | (is_important ? 0 : MSG_DONTWAIT), (struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_bytes)) >= 0)
        return true;
    if (is_important)
        log_warn(TOPIC_DAEMON, "the service manager cannot be told '%.32s': %s", state, strerror(errno));
    return false;
}

/* Replaces control characters, since a newline would begin another assignment. */
static void one_line(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            *text = ' ';
}

void notify_ready(const char *status) {
    char state[600];

    snprintf(last_status, sizeof(last_status), "%s", status);
    one_line(last_status);
    snprintf(state, sizeof(state), "READY=1\nSTATUS=%s", last_status);
    (void)send_state(state, true);
}

void notify_status(const char *status) {
    char state[600], text[sizeof(last_status)];

    snprintf(text, sizeof(text), "%s", status);
    one_line(text);
    if (!strcmp(text, last_status))
        return;
    snprintf(state, sizeof(state), "STATUS=%s", text);
    if (send_state(state, false))
        memcpy(last_status, text, sizeof(last_status));
}

void notify_reloading(void) {
    char state[64];

    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
    (void)send_state(state, true);
}

void notify_stopping(const char *status, uint64_t timeout_us) {
    char state[700];

    snprintf(last_status, sizeof(last_status), "%s", status);
    one_line(last_status);
    snprintf(state, sizeof(state), "STOPPING=1\nSTATUS=%s\nEXTEND_TIMEOUT_USEC=%" PRIu64, last_status, timeout_us);
    (void)send_state(state, true);
}

/* Returns the watchdog's period in µs; 0 if there is none for this process, or no number: sd_watchdog_enabled(3). */
uint64_t notify_watchdog_us(void) {
    const char *period = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t usec = 0, owner;

    if (pid && (!decimal_parse_u64(pid, &owner) || owner != (uint64_t)getpid()))
        return 0;
    return period && decimal_parse_u64(period, &usec) ? usec : 0;
}

void notify_watchdog_ping(void) {
    (void)send_state("WATCHDOG=1", false);
}
