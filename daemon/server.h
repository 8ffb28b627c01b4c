// SPDX-License-Identifier: Apache-2.0
/* The daemon: the service, its listening sockets, and the loop with signals, timers and the watchdog. */
#ifndef COORDGEN_DAEMON_SERVER_H
#define COORDGEN_DAEMON_SERVER_H

#include "daemon/net/listener.h"
#include "daemon/service.h"

typedef struct Server { /* all loop */
    Service service;
    int argc; /* for a reload */
    char *const *argv;
    ListenerSet listeners;

    struct event *draft_event; /* NULL: there is no draft store */
    struct event *constraint_event;
    struct event *outbox_event;
    struct event *signal_events[3];
    struct event *tick;     /* progress of waiting requests, status text */
    struct event *watchdog; /* NULL: none is wanted */
    struct event *log_rate; /* runs while there are counts of suppressed log lines to log */
    struct event *deadline; /* end of the draining */

    bool was_late;                /* the watchdog has already reported the running operator */
    uint64_t beats_seen, beat_ns; /* last sign of life of the engine thread that the watchdog saw, and its time */
    bool was_cancelled;           /* drain-timeout has passed */
    uint64_t status_ns;           /* last status text for the service manager */
} Server;

/* Raises the limit on open files to what the connections need, or lowers their number to what the limit allows. 0, or
 * -EMFILE with a text: hardly any is possible. */
int server_check_descriptors(Config *config, ErrText *err);
/* Takes the configuration and the listeners. 0 or -errno with a text. */
int server_new(Server **serverp, Config **configp, ListenerSet *listeners, int argc, char *const argv[], ErrText *err);
Server *server_free(Server *server);
DEFINE_CLEANUP(Server, server_free)
/* Serves until a signal ends it. 0, or -ETIMEDOUT: the engine thread does not end, and only _exit() is possible. */
int server_run(Server *server);

#endif
