// SPDX-License-Identifier: Apache-2.0
/* Listening sockets: handed over by the process that started the service, or created at a path. The socket of a dead
 * daemon is replaced. */
#ifndef COORDGEN_DAEMON_LISTENER_H
#define COORDGEN_DAEMON_LISTENER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/service/unix_socket.h"
#include "daemon/config/config.h"
#include "daemon/loop.h"

enum {
    LISTENER_E_SERVED = UNIX_SOCKET_E_SERVED, /* another daemon answers at this address */
    LISTENER_E_PATH = UNIX_SOCKET_E_PATH,     /* an address that is too long, no socket, or of an unknown form */
};

#define LISTENERS_MAX 8

/* A socket with its place in the file system; nothing is accepted before listener_set_start(). */
typedef struct Listener {
    Loop *loop;
    int fd; /* -1: none */
    bool is_admin;
    char *path; /* path of a socket that this process created and removes; NULL: handed over */
    uint64_t device;
    uint64_t inode;
    struct event *event;
    struct event *retry; /* after the process ran out of descriptors */
    void (*on_accept)(void *arg, int fd, bool is_admin);
    void *arg;
} Listener;

typedef struct ListenerSet {
    Listener listeners[LISTENERS_MAX];
    size_t n;
    bool handed_over; /* by systemd or by init */
} ListenerSet;

/* Takes the sockets that were handed over (daemon/systemd/activation.h), or opens the configuration's paths. 0,
 * LISTENER_E_*, -errno, with a text. */
int listener_set_open(ListenerSet *set, const Config *config, ErrText *err);
int listener_set_start(ListenerSet *set, Loop *loop, void (*on_accept)(void *arg, int fd, bool is_admin), void *arg);
void listener_set_close(ListenerSet *set); /* accepts no more, and unlinks the sockets that this process has made */
/* Opens one socket at an address ("unix:PATH" or "PATH"). 0, LISTENER_E_*, -errno, with a text. */
int listener_open(Listener *listener, const char *address, bool is_admin, ErrText *err);
void listener_close(Listener *listener);
/* Checks the settings of sockets without making any. Return: as listener_set_open(); the text begins with the
 * setting's name. */
int listener_set_check(const Config *config, ErrText *err);

#endif
