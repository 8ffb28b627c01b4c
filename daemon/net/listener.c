// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/net/listener.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/files/file_io.h"
#include "base/files/paths.h"
#include "base/files/user_dirs.h"
#include "base/log.h"
#include "daemon/systemd/activation.h"

#define RETRY_S 1
#define ACCEPTS_AT_ONCE 16 /* number of clients accepted at a time before existing connections have their turn */

int listener_open(Listener *listener, const char *address, bool is_admin, ErrText *err) {
    UnixSocket made;
    const int r = unix_socket_open(&made, address, is_admin ? 0600 : 0660, err);

    *listener = (Listener){
        .fd = made.fd, .is_admin = is_admin, .path = made.path, .device = made.device, .inode = made.inode
    };
    return r;
}

void listener_close(Listener *listener) {
    UnixSocket made = {
        .fd = listener->fd, .path = listener->path, .device = listener->device, .inode = listener->inode
    };

    if (listener->event)
        event_free(listener->event);
    if (listener->retry)
        event_free(listener->retry);
    unix_socket_close(&made);
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
    int r;

    if (set->n == LISTENERS_MAX)
        return err_set(err, -E2BIG, "%s: %d sockets are there already, those of systemd: at most %d", address,
                       LISTENERS_MAX, LISTENERS_MAX);
    r = listener_open(&set->listeners[set->n], address, is_admin, err);
    set->n += !r;
    return r;
}

/* A socket to open, at the setting's address or at the default path in a folder that the start creates. */
typedef struct SocketPlace {
    const char *setting;
    const char *address; /* NULL: no socket */
    bool is_admin;
    bool is_default;
    char path[PATH_MAX];
} SocketPlace;

enum { /* indices of the sockets to open */
    SOCKET_API,
    SOCKET_ADMIN,
    SOCKETS
};

/* Writes the default path of a socket. */
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

/* Sets the default address. Return: 0, or LISTENER_E_PATH if the environment names no folder for default sockets. */
static int name_default(SocketPlace *place, const Config *config, ErrText *err) {
    int r = default_path(config, place->is_admin, place->path, sizeof(place->path), err);

    if (r)
        return r;
    place->is_default = true;
    place->address = place->path;
    return 0;
}

/* Fills in the sockets to open, for a start with or without sockets of systemd. */
static int find_places(SocketPlace places[SOCKETS], const Config *config, bool handed_over, ErrText *err) {
    int r = 0;

    places[SOCKET_API] = (SocketPlace){ .setting = "listen", .address = *config->listen ? config->listen : NULL };
    places[SOCKET_ADMIN] = (SocketPlace){ .setting = "admin-listen",
                                          .address = *config->admin_listen ? config->admin_listen : NULL,
                                          .is_admin = true };
    if (handed_over)
        return 0;
    if (!places[SOCKET_API].address)
        r = name_default(&places[SOCKET_API], config, err);
    if (!r && !places[SOCKET_ADMIN].address && places[SOCKET_API].is_default)
        r = name_default(&places[SOCKET_ADMIN], config, err);
    return r;
}

/* Checks the addresses, and that no two are the same, without a socket. */
static int check_addresses(const SocketPlace places[SOCKETS], struct sockaddr_un to[SOCKETS], ErrText *err) {
    for (size_t i = 0; i < SOCKETS; i++) {
        int r = places[i].address ? unix_socket_address(places[i].address, &to[i], err) : 0;

        if (r) {
            err_prefix(err, "%s", places[i].setting);
            return r;
        }
    }
    if (places[SOCKET_API].address && places[SOCKET_ADMIN].address &&
        !strcmp(to[SOCKET_API].sun_path, to[SOCKET_ADMIN].sun_path))
        return err_set(err, LISTENER_E_PATH, "admin-listen: '%s' is that of listen: choose another path",
                       to[SOCKET_ADMIN].sun_path);
    return 0;
}

int listener_set_check(const Config *config, ErrText *err) {
    struct sockaddr_un to[SOCKETS];
    SocketPlace places[SOCKETS];
    int r = find_places(places, config, false, err);

    /* The check of a system service may run without the service's runtime directory and without systemd's sockets. */
    if (r == LISTENER_E_PATH && !config->is_users)
        r = find_places(places, config, true, err);
    if (!r)
        r = check_addresses(places, to, err);
    for (size_t i = 0; !r && i < SOCKETS; i++) {
        r = places[i].address ? unix_socket_check_place(&to[i], err) : 0;
        if (!r && places[i].address)
            r = unix_socket_check_folder(&to[i], places[i].is_default, err);
        if (r)
            err_prefix(err, "%s", places[i].setting);
    }
    return r;
}

static int open_place(ListenerSet *set, const SocketPlace *place, ErrText *err) {
    char folder[PATH_MAX];
    int r = 0;

    if (place->is_default) {
        snprintf(folder, sizeof(folder), "%s", place->path);
        *strrchr(folder, '/') = 0;
        r = file_make_dirs(folder, err);
    }
    return r ? r : add(set, place->address, place->is_admin, err);
}

int listener_set_open(ListenerSet *set, const Config *config, ErrText *err) {
    struct sockaddr_un to[SOCKETS];
    SocketPlace places[SOCKETS];
    int r;

    *set = (ListenerSet){ 0 };
    r = open_handed_over(set, err);
    if (r)
        return r;
    r = find_places(places, config, set->handed_over, err);
    if (!r)
        r = check_addresses(places, to, err);
    for (size_t i = 0; !r && i < SOCKETS; i++)
        r = places[i].address ? open_place(set, &places[i], err) : 0;
    if (r)
        listener_set_close(set);
    return r;
}

/* Resumes listening, and repeats the timer until that succeeds: a service that accepts nobody is useless. */
static void on_retry(evutil_socket_t fd, short what, void *arg) {
    Listener *listener = arg;

    assert_on_loop(listener->loop);
    if (!event_add(listener->event, NULL))
        event_del(listener->retry);
}

/* Pauses accept() if descriptors or memory ran out. The connection stays in the backlog, and a retry at once would
 * spin. */
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
