// SPDX-License-Identifier: Apache-2.0
#include "gateway/process/httpd_sockets.h"

#include <arpa/inet.h>
#include <event2/util.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/files/file_io.h"
#include "base/files/user_dirs.h"
#include "base/service/inherited_sockets.h"
#include "base/strings/decimal.h"
#include "base/strings/printable.h"

enum {
    BACKLOG = 1024,
};

typedef union SocketAddress {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} SocketAddress;

/* ---- sockets of systemd ------------------------------------------------------------------------------------------ */

/* Writes the address of a socket for the log. */
static void name_socket(int fd, char *name, size_t room_bytes) {
    union {
        SocketAddress tcp;
        struct sockaddr_un local;
    } at = { 0 };
    char text[INET6_ADDRSTRLEN] = "?";
    socklen_t len_bytes = sizeof(at);

    if (getsockname(fd, &at.tcp.any, &len_bytes) < 0) {
        snprintf(name, room_bytes, "descriptor %d", fd);
    } else if (at.tcp.any.sa_family == AF_UNIX) {
        snprintf(name, room_bytes, "%.*s", (int)sizeof(at.local.sun_path), at.local.sun_path);
    } else if (at.tcp.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &at.tcp.v4.sin_addr, text, sizeof(text));
        snprintf(name, room_bytes, "%s:%u", text, ntohs(at.tcp.v4.sin_port));
    } else {
        inet_ntop(AF_INET6, &at.tcp.v6.sin6_addr, text, sizeof(text));
        snprintf(name, room_bytes, "[%s]:%u", text, ntohs(at.tcp.v6.sin6_port));
    }
}

static bool is_tcp(int fd) {
    SocketAddress at = { 0 };
    socklen_t len_bytes = sizeof(at);

    return !getsockname(fd, &at.any, &len_bytes) && at.any.sa_family != AF_UNIX;
}

static void add(HttpdSockets *sockets, int fd, const UnixSocket *file) {
    sockets->sockets[sockets->n].fd = fd;
    sockets->sockets[sockets->n].file = *file;
    name_socket(fd, sockets->sockets[sockets->n].name, sizeof(sockets->sockets[sockets->n].name));
    sockets->has_tcp |= is_tcp(fd);
    sockets->n++;
}

static int take_inherited(HttpdSockets *sockets, ErrText *err) {
    static const InheritedName known[] = { { "http", 0 }, { "coordgen-httpd.socket", 0 } };
    static const InheritedNames names = {
        .systemd = known, .n_systemd = ARRAY_LEN(known), .known = "http", .takes_loopback = true
    };
    InheritedSet given;
    const int r = inherited_sockets_look(&names, &given, err);

    inherited_sockets_forget(&names);
    for (size_t i = 0; !r && i < given.n; i++) {
        evutil_make_socket_nonblocking(given.sockets[i].fd);
        add(sockets, given.sockets[i].fd, &(UnixSocket){ .fd = -1 });
    }
    sockets->is_inherited = sockets->n > 0;
    return r;
}

/* ---- sockets of --listen ----------------------------------------------------------------------------------------- */

/* Reads 127.0.0.1:PORT or [::1]:PORT. */
static bool read_tcp(const char *text, SocketAddress *at, socklen_t *len_bytesp) {
    static const char v4[] = "127.0.0.1:", v6[] = "[::1]:";
    const bool is_v6 = !strncmp(text, v6, sizeof(v6) - 1);
    uint64_t port;

    if (!is_v6 && strncmp(text, v4, sizeof(v4) - 1))
        return false;
    if (!decimal_parse_u64(text + (is_v6 ? sizeof(v6) : sizeof(v4)) - 1, &port) || port > UINT16_MAX)
        return false;
    *at = (SocketAddress){ 0 };
    if (is_v6)
        at->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
                                        .sin6_port = htons((uint16_t)port),
                                        .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    else
        at->v4 = (struct sockaddr_in){ .sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    *len_bytesp = is_v6 ? sizeof(at->v6) : sizeof(at->v4);
    return true;
}

static int open_tcp(HttpdSockets *sockets, const char *text, const SocketAddress *at, socklen_t len_bytes,
                    ErrText *err) {
    _cleanup_(closep) int fd = socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;

    /* Without the option, connections that end would keep the address for a minute. A living program keeps it. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(fd, &at->any, len_bytes) < 0 ||
        listen(fd, BACKLOG) < 0)
        return err_set(err, errno == EADDRINUSE ? HTTPD_SOCKETS_E_ADDRESS : -errno, "%s: cannot listen: %s", text,
                       strerror(errno));
    add(sockets, steal_fd(&fd), &(UnixSocket){ .fd = -1 });
    return 0;
}

static int open_unix(HttpdSockets *sockets, const char *path, ErrText *err) {
    UnixSocket file;
    const int r = unix_socket_open(&file, path, 0600, err);

    if (r)
        return r > 0 ? HTTPD_SOCKETS_E_ADDRESS : r;
    (void)listen(file.fd, BACKLOG);
    add(sockets, file.fd, &file);
    return 0;
}

static int open_address(HttpdSockets *sockets, const char *text, ErrText *err) {
    socklen_t len_bytes;
    SocketAddress at;

    if (sockets->n == HTTP_SOCKETS_MAX)
        return err_set(err, HTTPD_SOCKETS_E_ADDRESS, "--listen %.*s: at most %d sockets, those of systemd among them",
                       UTF8_PREFIX(text, 160), HTTP_SOCKETS_MAX);
    if (read_tcp(text, &at, &len_bytes))
        return open_tcp(sockets, text, &at, len_bytes, err);
    if (*text == '/' || *text == '.' || !strncmp(text, "unix:", 5))
        return open_unix(sockets, text, err);
    return err_set(err, HTTPD_SOCKETS_E_ADDRESS,
                   "--listen %.*s: an address is a path, 127.0.0.1:PORT or [::1]:PORT: the gateway serves this machine "
                   "alone",
                   UTF8_PREFIX(text, 160));
}

static int open_default(HttpdSockets *sockets, ErrText *err) {
    char path[PATH_MAX], folder[PATH_MAX];
    int r = geteuid() ? user_dir(USER_DIR_RUNTIME, "/http.sock", path, sizeof(path)) : -ENOENT;

    if (r)
        return err_set(err, HTTPD_SOCKETS_E_ADDRESS,
                       geteuid() ? "XDG_RUNTIME_DIR is not a folder of this user: name a socket by --listen"
                                 : "root has no default socket: name one by --listen");
    snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = 0;
    r = file_make_dirs(folder, err);
    return r ? r : open_unix(sockets, path, err);
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

int httpd_sockets_open(HttpdSockets *sockets, const HttpdSettings *settings, ErrText *err) {
    int r;

    *sockets = (HttpdSockets){ 0 };
    r = take_inherited(sockets, err);
    for (size_t i = 0; !r && i < settings->n_listen; i++)
        r = open_address(sockets, settings->listen[i], err);
    if (!r && !sockets->n)
        r = open_default(sockets, err);
    if (!r && sockets->has_tcp && !settings->token_file)
        r = err_set(err, HTTPD_SOCKETS_E_ADDRESS,
                    "every program of this machine can reach a TCP socket: name a file of tokens by --token-file");
    if (r)
        httpd_sockets_close(sockets);
    return r;
}

void httpd_sockets_close(HttpdSockets *sockets) {
    for (size_t i = 0; i < sockets->n; i++) {
        unix_socket_unlink(&sockets->sockets[i].file);
        free(sockets->sockets[i].file.path);
        if (sockets->sockets[i].fd >= 0)
            close(sockets->sockets[i].fd);
    }
    sockets->n = 0;
}
