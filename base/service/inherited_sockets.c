// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/service/inherited_sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
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

static int option_of(int fd, int option) {
    int value = -1;
    socklen_t len_bytes = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len_bytes) < 0 ? -1 : value;
}

static bool is_unix_stream(int fd) {
    return option_of(fd, SO_DOMAIN) == AF_UNIX && option_of(fd, SO_TYPE) == SOCK_STREAM;
}

/* Whether a TCP socket takes clients of this machine only. */
static bool is_loopback_stream(int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = { 0 };
    socklen_t len_bytes = sizeof(at);

    if (option_of(fd, SO_TYPE) != SOCK_STREAM || getsockname(fd, &at.any, &len_bytes) < 0)
        return false;
    if (at.any.sa_family == AF_INET)
        return ntohl(at.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return at.any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&at.v6.sin6_addr);
}

static int add(InheritedSet *set, int fd, int purpose) {
    set->sockets[set->n++] = (InheritedSocket){ .fd = fd, .purpose = purpose };
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
static bool purpose_of(const InheritedNames *names, const char *name, size_t n_fds, int *purposep) {
    for (size_t i = 0; i < names->n_systemd; i++)
        if (!strcmp(names->systemd[i].name, name)) {
            *purposep = names->systemd[i].purpose;
            return true;
        }
    *purposep = names->single_purpose;
    return n_fds == 1;
}

static int take_from_systemd(const InheritedNames *names, InheritedSet *set, int fd, const char *name, size_t n_fds,
                             ErrText *err) {
    const bool fits = is_unix_stream(fd) || (names->takes_loopback && is_loopback_stream(fd));
    int purpose, r;

    if (!fits || option_of(fd, SO_ACCEPTCONN) != 1)
        return err_set(err, -EINVAL, "descriptor %d ('%.*s') from systemd is not a listening Unix stream socket%s", fd,
                       UTF8_PREFIX(name, 64), names->takes_loopback ? ", nor one of 127.0.0.1 or [::1]" : "");
    if (!purpose_of(names, name, n_fds, &purpose))
        return err_set(err, -EINVAL, "descriptor %d from systemd is named '%.*s': set FileDescriptorName= to %s", fd,
                       UTF8_PREFIX(name, 64), names->known);
    r = add(set, fd, purpose);
    return r ? err_set(err, r, "descriptor %d from systemd: %s", fd, strerror(-r)) : 0;
}

static int look_for_systemd(const InheritedNames *names, InheritedSet *set, ErrText *err) {
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"), *given = getenv("LISTEN_FDNAMES");
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
    if (n > INHERITED_SOCKETS_MAX)
        return err_set(err, -E2BIG, "LISTEN_FDS=%.*s sockets from systemd: at most %d", UTF8_PREFIX(fds, 64),
                       INHERITED_SOCKETS_MAX);
    given = given ? given : "";
    for (size_t i = 0; i < n; i++) {
        r = take_from_systemd(names, set, SYSTEMD_FDS_START + (int)i, next_name(&given, name, sizeof(name)), n, err);
        if (r)
            return r;
    }
    return 0;
}

/* ---- Android's init ---------------------------------------------------------------------------------------------- */

static int take_from_init(InheritedSet *set, const char *variable, const char *value, int purpose, ErrText *err) {
    uint64_t fd;
    int r;

    if (!decimal_parse_u64(value, &fd) || fd > INT_MAX || !is_unix_stream((int)fd))
        return err_set(err, -EINVAL,
                       "%s=%.*s is not the descriptor of a Unix stream socket: the service's .rc file "
                       "needs a line 'socket NAME stream+listen MODE USER GROUP'",
                       variable, UTF8_PREFIX(value, 64));
    if (set->n == INHERITED_SOCKETS_MAX)
        return err_set(err, -E2BIG, "%s: more than %d sockets are handed over", variable, INHERITED_SOCKETS_MAX);
    /* Without "+listen" init has only bound the socket. */
    if (listen((int)fd, BACKLOG) < 0)
        return err_set(err, -errno, "%s=%d: cannot listen: %s", variable, (int)fd, strerror(errno));
    r = add(set, (int)fd, purpose);
    return r ? err_set(err, r, "%s=%d: %s", variable, (int)fd, strerror(-r)) : 0;
}

int inherited_sockets_look(const InheritedNames *names, InheritedSet *set, ErrText *err) {
    int r;

    *set = (InheritedSet){ 0 };
    r = look_for_systemd(names, set, err);
    for (size_t i = 0; !r && i < names->n_android; i++) {
        const char *value = getenv(names->android[i].name);

        r = value ? take_from_init(set, names->android[i].name, value, names->android[i].purpose, err) : 0;
    }
    return r;
}

void inherited_sockets_forget(const InheritedNames *names) {
    static const char *const systemd_variables[] = { "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES" };

    for (size_t i = 0; i < ARRAY_LEN(systemd_variables); i++)
        unsetenv(systemd_variables[i]);
    for (size_t i = 0; i < names->n_android; i++)
        unsetenv(names->android[i].name);
}
