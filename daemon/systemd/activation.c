// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/systemd/activation.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strings/decimal.h"
#include "base/strings/printable.h"

/* The first of systemd's consecutive descriptors: sd_listen_fds(3). */
#define SYSTEMD_FDS_START 3
#define BACKLOG 128

/* android init: "socket coordgend stream+listen 0660 ..."; other characters than letters and digits become '_'. */
static const struct {
    const char *variable;
    bool is_admin;
} android_sockets[] = {
    { "ANDROID_SOCKET_coordgend", false },
    { "ANDROID_SOCKET_coordgend_admin", true },
};

static const struct {
    const char *name;
    bool is_admin;
} systemd_names[] = {
    { "api", false },
    { "coordgend.socket", false },
    { "admin", true },
    { "coordgend-admin.socket", true },
};

static int option_of(int fd, int option) {
    int value = -1;
    socklen_t len_bytes = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len_bytes) < 0 ? -1 : value;
}

static bool is_unix_stream(int fd) {
    return option_of(fd, SO_DOMAIN) == AF_UNIX && option_of(fd, SO_TYPE) == SOCK_STREAM;
}

static int add(ActivationSet *set, int fd, bool is_admin) {
    set->sockets[set->n++] = (ActivationSocket){ .fd = fd, .is_admin = is_admin };
    if (set->fds_end <= fd)
        set->fds_end = fd + 1;
    return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
}

/* ---- systemd ----------------------------------------------------------------------------------------------------- */

/* Copies the next of the names, which colons separate; "" after the last one. */
static const char *next_name(const char **restp, char *name, size_t room_bytes) {
    size_t len_bytes = strcspn(*restp, ":"), taken_bytes = len_bytes < room_bytes ? len_bytes : room_bytes - 1;

    memcpy(name, *restp, taken_bytes);
    name[taken_bytes] = 0;
    *restp += len_bytes + ((*restp)[len_bytes] == ':');
    return name;
}

/* Tells whether the name gives the socket's purpose; a single socket needs no name. */
static bool purpose_of(const char *name, size_t n_fds, bool *is_adminp) {
    *is_adminp = false;
    for (size_t i = 0; i < ARRAY_LEN(systemd_names); i++)
        if (!strcmp(systemd_names[i].name, name)) {
            *is_adminp = systemd_names[i].is_admin;
            return true;
        }
    return n_fds == 1;
}

static int take_from_systemd(ActivationSet *set, int fd, const char *name, size_t n_fds, ErrText *err) {
    bool is_admin;
    int r;

    if (!is_unix_stream(fd) || option_of(fd, SO_ACCEPTCONN) != 1)
        return err_set(err, -EINVAL, "descriptor %d ('%.*s') from systemd is not a listening Unix stream socket", fd,
                       UTF8_PREFIX(name, 64));
    if (!purpose_of(name, n_fds, &is_admin))
        return err_set(err, -EINVAL,
                       "descriptor %d from systemd is named '%.*s': set FileDescriptorName= to api or admin", fd,
                       UTF8_PREFIX(name, 64));
    r = add(set, fd, is_admin);
    return r ? err_set(err, r, "descriptor %d from systemd: %s", fd, strerror(-r)) : 0;
}

static int look_for_systemd(ActivationSet *set, ErrText *err) {
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
    uint64_t owner, n;
    char name[256];
    int r;

    if (!pid || !fds)
        return 0;
    if (!decimal_parse_u64(pid, &owner))
        return err_set(err, -EINVAL, "LISTEN_PID=%.*s is not a process: systemd sets it; remove the variable",
                       UTF8_PREFIX(pid, 64));
    if (owner != (uint64_t)getpid())
        return 0; /* the variables were for another process, which started this one */
    if (!decimal_parse_u64(fds, &n))
        return err_set(err, -EINVAL, "LISTEN_FDS=%.*s is not a number: systemd sets it; remove the variable",
                       UTF8_PREFIX(fds, 64));
    if (n > ACTIVATION_SOCKETS_MAX)
        return err_set(err, -E2BIG, "LISTEN_FDS=%.*s sockets from systemd: at most %d", UTF8_PREFIX(fds, 64),
                       ACTIVATION_SOCKETS_MAX);
    names = names ? names : "";
    for (size_t i = 0; i < n; i++) {
        r = take_from_systemd(set, SYSTEMD_FDS_START + (int)i, next_name(&names, name, sizeof(name)), n, err);
        if (r)
            return r;
    }
    return 0;
}

/* ---- Android's init ---------------------------------------------------------------------------------------------- */

static int take_from_init(ActivationSet *set, const char *variable, const char *value, bool is_admin, ErrText *err) {
    uint64_t fd;
    int r;

    if (!decimal_parse_u64(value, &fd) || fd > INT_MAX || !is_unix_stream((int)fd))
        return err_set(err, -EINVAL,
                       "%s=%.*s is not the descriptor of a Unix stream socket: the service's .rc file "
                       "needs a line 'socket NAME stream+listen MODE USER GROUP'",
                       variable, UTF8_PREFIX(value, 64));
    if (set->n == ACTIVATION_SOCKETS_MAX)
        return err_set(err, -E2BIG, "%s: more than %d sockets are handed over", variable, ACTIVATION_SOCKETS_MAX);
    /* Without "+listen" init has only bound the socket. */
    if (listen((int)fd, BACKLOG) < 0)
        return err_set(err, -errno, "%s=%d: cannot listen: %s", variable, (int)fd, strerror(errno));
    r = add(set, (int)fd, is_admin);
    return r ? err_set(err, r, "%s=%d: %s", variable, (int)fd, strerror(-r)) : 0;
}

int activation_look(ActivationSet *set, ErrText *err) {
    int r;

    *set = (ActivationSet){ 0 };
    r = look_for_systemd(set, err);
    for (size_t i = 0; !r && i < ARRAY_LEN(android_sockets); i++) {
        const char *value = getenv(android_sockets[i].variable);

        r = value ? take_from_init(set, android_sockets[i].variable, value, android_sockets[i].is_admin, err) : 0;
    }
    return r;
}

void activation_forget(void) {
    static const char *const systemd_variables[] = { "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES" };

    for (size_t i = 0; i < ARRAY_LEN(systemd_variables); i++)
        unsetenv(systemd_variables[i]);
    for (size_t i = 0; i < ARRAY_LEN(android_sockets); i++)
        unsetenv(android_sockets[i].variable);
}
