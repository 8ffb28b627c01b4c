// SPDX-License-Identifier: Apache-2.0
/* What the daemon serves its clients with: everything that their handlers see, and nothing of the loop's events, signals
 * and sockets, which are the server's. */
#ifndef COORDGEN_DAEMON_SERVICE_H
#define COORDGEN_DAEMON_SERVICE_H

#include "daemon/admission.h"
#include "daemon/engine_thread.h"
#include "daemon/model_folder.h"
#include "daemon/tally.h"
#include "daemon/user.h"

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
    Admission admission;
    TallyTable tallies;
    unsigned int n_sessions;
    uint64_t last_session;
    bool engine_ended; /* the loop may touch what was the engine thread's */
    uint64_t last_request;
    RequestList loads; /* ModelLoad and ModelUnload requests that wait for their model; by queue_link */
    unsigned int n_loads;
    bool models_changed; /* and those have not heard of it yet */
    bool draining;
    uint64_t started_ns;
};

#endif
