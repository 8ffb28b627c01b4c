// SPDX-License-Identifier: Apache-2.0
/* What the daemon serves its clients with: everything that their handlers see, and nothing of the loop's events, signals
 * and sockets, which are the server's. */
#ifndef COORDGEN_DAEMON_SERVICE_H
#define COORDGEN_DAEMON_SERVICE_H

#include "daemon/model_folder.h"
#include "daemon/request.h"
#include "daemon/session.h"

struct Service { /* all loop */
    Loop loop;
    Config *config;        /* live settings change in place on SIGHUP */
    AccountTable accounts; /* any thread */
    unsigned int n_threads;
    EngineThread *engine_thread;
    PrefixCache *prefix_cache; /* engine thread; NULL: nothing is kept */
    ModelRegistry models;
    ModelFolder folder;
    struct event *scan; /* of the models' folder, the next part of it */
    UserTable users;
    RequestTable requests;
    SessionTable sessions;
    bool draining;
    uint64_t started_ns;
};

#endif
