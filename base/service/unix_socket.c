// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/service/unix_socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strings/printable.h"

#define BACKLOG 128

enum {
    LOCK_TRIES = 100,
    LOCK_TRY_NS = 10000000,
};

typedef char SocketPath[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

/* Tells whether an address is a path. A relative path must begin with a dot, since a bare word or host:port is a
 * mistake, not a file in the current folder. */
static bool is_path(const char *text) {
    return *text == '/' || !strncmp(text, "./", 2) || !strncmp(text, "../", 3);
}

int unix_socket_address(const char *address, struct sockaddr_un *to, ErrText *err) {
    const char *path = !strncmp(address, "unix:", 5) ? address + 5 : address;

    *to = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (!is_path(path))
        return err_set(err, UNIX_SOCKET_E_PATH,
                       *path == '@' ? "listen address '%.*s' is abstract: those have no owner and no mode; name a path"
                                    : "listen address '%.*s' is not a path or unix:PATH: begin it with /",
                       UTF8_PREFIX(address, 256));
    if (strlen(path) >= sizeof(to->sun_path))
        return err_set(err, UNIX_SOCKET_E_PATH, "socket path '%.*s' is longer than %zu bytes: choose a shorter one",
                       UTF8_PREFIX(path, 256), sizeof(to->sun_path) - 1);
    memcpy(to->sun_path, path, strlen(path) + 1);
    return 0;
}

static void folder_of(const struct sockaddr_un *address, SocketPath folder) {
    char *slash;

    snprintf(folder, sizeof(SocketPath), "%s", address->sun_path);
    slash = strrchr(folder, '/');
    if (!slash)
        snprintf(folder, sizeof(SocketPath), ".");
    else
        slash[slash == folder] = 0;
}

int unix_socket_check_folder(const struct sockaddr_un *to, bool may_be_absent, ErrText *err) {
    SocketPath folder;
    struct stat info;

    folder_of(to, folder);
    if (stat(folder, &info) < 0)
        return errno == ENOENT && may_be_absent
                   ? 0
                   : err_set(err, -errno, "%s: its folder: %s: make it or choose another path", to->sun_path,
                             strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return err_set(err, -ENOTDIR, "%s: %s is not a folder: choose another path", to->sun_path, folder);
    if (access(folder, W_OK | X_OK) < 0)
        return err_set(err, -errno, "%s: its folder: %s: let the service's user write there", to->sun_path,
                       strerror(errno));
    return 0;
}

int unix_socket_check_place(const struct sockaddr_un *to, ErrText *err) {
    struct stat info;

    if (!lstat(to->sun_path, &info) && !S_ISSOCK(info.st_mode))
        return err_set(err, UNIX_SOCKET_E_PATH, "%s: is there and is not a socket: remove it or choose another path",
                       to->sun_path);
    return 0;
}

/* Removes a socket file that a dead daemon left. Only a refused connection proves that a file is stale; any other
 * result keeps the file. */
static int remove_stale(const struct sockaddr_un *address, ErrText *err) {
    _cleanup_(closep) int fd = -1;
    struct stat info;
    int r;

    if (lstat(address->sun_path, &info) < 0)
        return errno == ENOENT ? 0 : err_set(err, -errno, "%s: %s", address->sun_path, strerror(errno));
    r = unix_socket_check_place(address, err);
    if (r)
        return r;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, -errno, "socket: %s", strerror(errno));
    if (!connect(fd, (const struct sockaddr *)address, sizeof(*address)) || errno == EAGAIN)
        return err_set(err, UNIX_SOCKET_E_SERVED, "%s: another daemon serves this socket", address->sun_path);
    if (errno != ECONNREFUSED && errno != ENOENT)
        return err_set(err, -errno, "%s: %s", address->sun_path, strerror(errno));
    log_info(TOPIC_BASE, "%s: replacing the socket that an earlier daemon left", address->sun_path);
    if (unlink(address->sun_path) < 0 && errno != ENOENT)
        return err_set(err, -errno, "%s: cannot remove the stale socket: %s", address->sun_path, strerror(errno));
    return 0;
}

/* Locks a folder, so that daemons that start at once create their sockets one by one. A socket has its name before the
 * daemon listens, and another daemon would take it for stale in between. Anybody who may read the folder can hold the
 * lock, so after a second the start goes on without it. Return: a descriptor whose close unlocks, or -1. */
static int lock_folder(const struct sockaddr_un *address) {
    _cleanup_(closep) int fd = -1;
    SocketPath folder;

    folder_of(address, folder);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
        if (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = LOCK_TRY_NS }, NULL);
    }
    return steal_fd(&fd);
}

/* Binds the socket and listens. The umask gives the file its mode from the first moment; no other thread runs yet. */
static int bind_and_listen(int fd, const struct sockaddr_un *to, mode_t mode, struct stat *info, ErrText *err) {
    const mode_t mask = umask(0777 & ~mode);
    int r = bind(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 ? -errno : 0;

    umask(mask);
    if (r)
        return err_set(err, r, "%s: cannot make the socket: %s", to->sun_path, strerror(-r));
    if (lstat(to->sun_path, info) < 0 || listen(fd, BACKLOG) < 0) {
        r = -errno;
        unlink(to->sun_path);
        return err_set(err, r, "%s: cannot listen: %s", to->sun_path, strerror(-r));
    }
    return 0;
}

int unix_socket_open(UnixSocket *made, const char *address, mode_t mode, ErrText *err) {
    _cleanup_(closep) int fd = -1, lock = -1;
    struct sockaddr_un to;
    struct stat info;
    int r;

    *made = (UnixSocket){ .fd = -1 };
    r = unix_socket_address(address, &to, err);
    if (r)
        return r;
    lock = lock_folder(&to);
    r = remove_stale(&to, err);
    if (r)
        return r;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, -errno, "socket: %s", strerror(errno));
    r = bind_and_listen(fd, &to, mode, &info, err);
    if (r)
        return r;
    made->path = strdup(to.sun_path);
    if (!made->path) {
        unlink(to.sun_path);
        return err_no_memory(err);
    }
    made->device = info.st_dev;
    made->inode = info.st_ino;
    made->fd = steal_fd(&fd);
    return 0;
}

void unix_socket_unlink(const UnixSocket *made) {
    struct stat info;

    /* Another daemon may own the path now. The inode identifies this socket, since it is not reused while the socket is
     * open. */
    if (made->path && !lstat(made->path, &info) && info.st_dev == made->device && info.st_ino == made->inode)
        unlink(made->path);
}

void unix_socket_close(UnixSocket *made) {
    unix_socket_unlink(made);
    if (made->fd >= 0)
        close(made->fd);
    free(made->path);
    *made = (UnixSocket){ .fd = -1 };
}
