// SPDX-License-Identifier: Apache-2.0
/* The daemon: its listeners, connections, models and queue, and the loop that owns them all. */
#ifndef COORDGEN_DAEMON_SERVER_H
#define COORDGEN_DAEMON_SERVER_H

#include "base/account.h"
#include "daemon/admission.h"
#include "daemon/config.h"
#include "daemon/engine_thread.h"
#include "daemon/listener.h"
#include "daemon/loop.h"
#include "daemon/model_folder.h"
#include "daemon/outbox.h"
#include "daemon/tally.h"
#include "daemon/user.h"

typedef struct Session Session;

TAILQ_HEAD(SessionList, Session);
typedef struct SessionList SessionList;
TAILQ_HEAD(ConnectionList, Connection);
typedef struct ConnectionList ConnectionList;

#define ADMIN_CONNECTIONS_MAX 16

struct Server { /* all loop */
    Loop loop;
    Config *config; /* live settings change in place on SIGHUP */
    int argc;       /* for a reload */
    char *const *argv;
    AccountTable accounts; /* any thread */
    unsigned int n_threads;
    Outbox *outbox;
    EngineThread *engine_thread;
    PrefixCache *prefix_cache; /* engine thread; NULL: nothing is kept */
    ListenerSet listeners;
    ModelRegistry models;
    ModelFolder folder;
    Admission admission;
    UserTable users;
    ConnectionList connections;
    unsigned int n_connections; /* of apps */
    unsigned int n_admin_connections;
    uint64_t last_connection; /* serials, for the log */
    uint64_t last_request;
    SessionList sessions; /* open ones */
    unsigned int n_sessions;
    uint64_t last_session;
    bool engine_ended; /* the loop may touch what was the engine thread's */

    RequestList loads; /* ModelLoad and ModelUnload requests that wait for their model; by queue_link */
    unsigned int n_loads;
    bool models_changed; /* and those have not heard of it yet */

    struct event *outbox_event;
    struct event *settle; /* made active by server_pump() */
    struct event *scan;   /* of the models' folder, the next part of it */
    struct event *signal_events[3];
    struct event *tick;     /* progress of waiting requests, status text */
    struct event *watchdog; /* NULL: none is wanted */
    struct event *deadline; /* end of the draining */

    bool draining;
    bool was_late;                /* the watchdog has complained about the operator that runs */
    uint64_t beats_seen, beat_ns; /* the engine thread's last sign of life that the watchdog saw, and when */
    bool was_cancelled;           /* drain-timeout has passed */
    uint64_t status_ns;           /* last status text for the service manager */
    uint64_t started_ns;
    TallyTable tallies;
};

/* Takes the configuration and the listeners. 0 or -errno with a text. */
int server_new(Server **serverp, Config **configp, ListenerSet *listeners, int argc, char *const argv[], ErrText *err);
Server *server_free(Server *server);
DEFINE_CLEANUP(Server, server_free)
/* Serves until a signal ends it. 0, or -ETIMEDOUT: the engine thread does not end, only _exit() is left. */
int server_run(Server *server);

void server_add_connection(Server *server, Connection *connection);
void server_forget_connection(Server *server, Connection *connection);
/* Something has ended or changed: when the loop is back at its top, what can start starts, what waits for a model hears
 * of it, and a drained server ends. */
void server_pump(Server *server);
/* Goes on with the scan of the models' folder, a part at a time. 0 or -ENOMEM. */
int server_read_folder(Server *server);
uint32_t server_retry_ms(Server *server);

#endif
