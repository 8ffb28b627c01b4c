// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file_io.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/printable.h"
#include "base/user_dirs.h"
#include "daemon/activation.h"

#define BACKLOG 128
#define RETRY_S 1
#define ACCEPTS_AT_ONCE 16 /* then the connections that there are have their turn */

enum {
    LOCK_TRIES = 100,
    LOCK_TRY_NS = 10000000,
};

typedef char SocketPath[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

static int address_of(const char *address, struct sockaddr_un *to, ErrText *err) {
    const char *path = !strncmp(address, "unix:", 5) ? address + 5 : address;

    *to = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (!*path || *path == '@')
        return err_set(err, LISTENER_E_PATH,
                       *path == '@' ? "listen address '%.*s' is abstract: those have no owner and no mode; name a path"
                                    : "listen address '%.*s' is not a path or unix:PATH",
                       UTF8_PREFIX(address, 256));
    if (strlen(path) >= sizeof(to->sun_path))
        return err_set(err, LISTENER_E_PATH, "socket path '%.*s' is longer than %zu bytes: choose a shorter one",
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

int listener_check(const char *address, ErrText *err) {
    struct sockaddr_un to;
    SocketPath folder;
    struct stat info;
    int r = address_of(address, &to, err);

    if (r)
        return r;
    if (!lstat(to.sun_path, &info) && !S_ISSOCK(info.st_mode))
        return err_set(err, LISTENER_E_PATH, "%s: is there and is not a socket: remove it or choose another path",
                       to.sun_path);
    folder_of(&to, folder);
    if (stat(folder, &info) < 0)
        return err_set(err, -errno, "%s: its folder: %s: make it or choose another path", to.sun_path, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return err_set(err, -ENOTDIR, "%s: %s is not a folder: choose another path", to.sun_path, folder);
    if (access(folder, W_OK | X_OK) < 0)
        return err_set(err, -errno, "%s: its folder: %s: let the service's user write there", to.sun_path,
                       strerror(errno));
    return 0;
}

/* A socket file outlives its daemon. Nobody answering is the proof that it is stale; anything else keeps it. */
static int remove_stale(const struct sockaddr_un *address, ErrText *err) {
    _cleanup_(closep) int fd = -1;
    struct stat info;

    if (lstat(address->sun_path, &info) < 0)
        return errno == ENOENT ? 0 : err_set(err, -errno, "%s: %s", address->sun_path, strerror(errno));
    if (!S_ISSOCK(info.st_mode))
        return err_set(err, LISTENER_E_PATH, "%s: is there and is not a socket: remove it or choose another path",
                       address->sun_path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, -errno, "socket: %s", strerror(errno));
    if (!connect(fd, (const struct sockaddr *)address, sizeof(*address)) || errno == EAGAIN)
        return err_set(err, LISTENER_E_SERVED, "%s: another daemon serves this socket", address->sun_path);
    if (errno != ECONNREFUSED && errno != ENOENT)
        return err_set(err, -errno, "%s: %s", address->sun_path, strerror(errno));
    log_info(TOPIC_DAEMON, "%s: replacing the socket that an earlier daemon left", address->sun_path);
    if (unlink(address->sun_path) < 0 && errno != ENOENT)
        return err_set(err, -errno, "%s: cannot remove the stale socket: %s", address->sun_path, strerror(errno));
    return 0;
}

/* Daemons that start at once make their sockets one by one: a socket has its name before anybody listens, and another
 * daemon would take it for stale then. Whoever may read the folder can lock it too, so this waits for a second at most
 * and then does without. Returns the lock, or -1; closing it unlocks. */
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

/* The mode must be right from the first moment: by the umask, while there is no other thread. */
static int bind_and_listen(int fd, const struct sockaddr_un *to, bool is_admin, struct stat *info, ErrText *err) {
    const mode_t mask = umask(is_admin ? 0177 : 0117);
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

int listener_open(Listener *listener, const char *address, bool is_admin, ErrText *err) {
    _cleanup_(closep) int fd = -1, lock = -1;
    struct sockaddr_un to;
    struct stat info;
    int r;

    *listener = (Listener){ .fd = -1, .is_admin = is_admin };
    r = address_of(address, &to, err);
    if (r)
        return r;
    lock = lock_folder(&to);
    r = remove_stale(&to, err);
    if (r)
        return r;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, -errno, "socket: %s", strerror(errno));
    r = bind_and_listen(fd, &to, is_admin, &info, err);
    if (r)
        return r;
    listener->path = strdup(to.sun_path);
    if (!listener->path) {
        unlink(to.sun_path);
        return err_set(err, -ENOMEM, "out of memory");
    }
    listener->device = info.st_dev;
    listener->inode = info.st_ino;
    listener->fd = steal_fd(&fd);
    return 0;
}

void listener_close(Listener *listener) {
    struct stat info;

    if (listener->event)
        event_free(listener->event);
    if (listener->retry)
        event_free(listener->retry);
    /* Another daemon may have taken the path over meanwhile. While our socket is open its inode is not used again. */
    if (listener->path && !lstat(listener->path, &info) && info.st_dev == listener->device &&
        info.st_ino == listener->inode)
        unlink(listener->path);
    if (listener->fd >= 0)
        close(listener->fd);
    free(listener->path);
    *listener = (Listener){ .fd = -1 };
}

/* ---- sockets that were handed over ------------------------------------------------------------------------------- */

static int open_handed_over(ListenerSet *set, ErrText *err) {
    ActivationSet given;
    int r = activation_look(&given, err);

    activation_forget();
    if (r)
        return r;
    for (size_t i = 0; i < given.n; i++) {
        evutil_make_socket_nonblocking(given.sockets[i].fd);
        set->listeners[set->n++] = (Listener){ .fd = given.sockets[i].fd, .is_admin = given.sockets[i].is_admin };
    }
    set->handed_over = given.n > 0;
    return 0;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static int add(ListenerSet *set, const char *address, bool is_admin, ErrText *err) {
    int r = listener_open(&set->listeners[set->n], address, is_admin, err);

    set->n += !r;
    return r;
}

/* Writes the path of a socket that nobody has named. */
static int default_path(const Config *config, bool is_admin, char *path, size_t room_bytes, ErrText *err) {
    int r;

    if (geteuid() == 0 && !config->is_users) {
        snprintf(path, room_bytes, "%s", is_admin ? PATH_ADMIN_SOCKET : PATH_API_SOCKET);
        return 0;
    }
    r = user_dir(USER_DIR_RUNTIME, is_admin ? "/admin.sock" : "/api.sock", path, room_bytes);
    if (r == -EPERM)
        return err_set(err, LISTENER_E_PATH,
                       "XDG_RUNTIME_DIR is another user's folder: log in as this user, or name a socket with "
                       "--listen=PATH");
    return r ? err_set(err, LISTENER_E_PATH, "XDG_RUNTIME_DIR is not set to a folder: name a socket with --listen=PATH")
             : 0;
}

static int open_default(ListenerSet *set, const Config *config, bool is_admin, ErrText *err) {
    struct sockaddr_un address;
    char path[PATH_MAX];
    SocketPath folder;
    int r = default_path(config, is_admin, path, sizeof(path), err);

    if (!r)
        r = address_of(path, &address, err);
    if (r)
        return r;
    folder_of(&address, folder);
    r = file_make_dirs(folder, err);
    return r ? r : add(set, path, is_admin, err);
}

int listener_set_open(ListenerSet *set, const Config *config, ErrText *err) {
    int r;

    *set = (ListenerSet){ 0 };
    r = open_handed_over(set, err);
    if (r)
        return r;
    if (*config->listen)
        r = add(set, config->listen, false, err);
    else if (!set->handed_over)
        r = open_default(set, config, false, err);
    if (!r && *config->admin_listen)
        r = add(set, config->admin_listen, true, err);
    else if (!r && !set->handed_over && !*config->listen)
        r = open_default(set, config, true, err);
    if (r)
        listener_set_close(set);
    return r;
}

/* Until listening has begun anew the timer comes again: a service that hears nobody helps nobody. */
static void on_retry(evutil_socket_t fd, short what, void *arg) {
    Listener *listener = arg;

    assert_on_loop(listener->loop);
    if (!event_add(listener->event, NULL))
        event_del(listener->retry);
}

/* Out of descriptors or memory: the connection stays in the backlog, and asking again at once would spin. */
static void pause_accepting(Listener *listener, int error) {
    static const struct timeval pause = { .tv_sec = RETRY_S };

    log_warn(TOPIC_DAEMON, "cannot accept a connection: %s: trying again in %d s", strerror(error), RETRY_S);
    if (!event_add(listener->retry, &pause))
        event_del(listener->event);
}

static bool is_of_one_connection(int error) {
    return error == ECONNABORTED || error == EINTR || error == EPROTO;
}

static void on_readable(evutil_socket_t fd, short what, void *arg) {
    Listener *listener = arg;

    assert_on_loop(listener->loop);
    for (unsigned int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int client = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (client >= 0) {
            listener->on_accept(listener->arg, client, listener->is_admin);
        } else if (errno == EAGAIN) {
            return;
        } else if (!is_of_one_connection(errno)) {
            pause_accepting(listener, errno);
            return;
        }
    }
}

int listener_set_start(ListenerSet *set, Loop *loop, void (*on_accept)(void *arg, int fd, bool is_admin), void *arg) {
    for (size_t i = 0; i < set->n; i++) {
        Listener *listener = &set->listeners[i];

        listener->loop = loop;
        listener->on_accept = on_accept;
        listener->arg = arg;
        listener->retry = event_new(loop->base, -1, EV_PERSIST, on_retry, listener);
        listener->event = event_new(loop->base, listener->fd, EV_READ | EV_PERSIST, on_readable, listener);
        if (!listener->event || !listener->retry || event_add(listener->event, NULL))
            return err_raise(-ENOMEM);
    }
    return 0;
}

void listener_set_close(ListenerSet *set) {
    for (size_t i = 0; i < set->n; i++)
        listener_close(&set->listeners[i]);
    set->n = 0;
}
