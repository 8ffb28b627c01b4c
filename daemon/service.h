// SPDX-License-Identifier: Apache-2.0
/* The service behind the sockets: users, models, requests, sessions, the loop and the engine thread. Signals, timers
 * and listening sockets belong to the server. */
#ifndef COORDGEN_DAEMON_SERVICE_H
#define COORDGEN_DAEMON_SERVICE_H

#include "daemon/engine/outbox.h"
#include "daemon/history/histories.h"
#include "daemon/models/files/model_folder.h"
#include "daemon/requests/request_table.h"
#include "daemon/requests/session.h"
#include "daemon/users/no_history.h"

enum {
    SERVICE_E_LIMITS = 1, /* the limits on memory contradict each other */
};

enum {
    SERVICE_STORE_MS = 5000, /* time to store the last answers */
    SERVICE_STOP_MS = 2000,  /* time for the engine thread to end its last step */
};

TAILQ_HEAD(DraftCallList, DraftErrand);
typedef struct DraftCallList DraftCallList;

typedef struct ServiceDrafts { /* earlier answers, for later drafts */
    DraftStore *store;         /* NULL: no answer is kept */
    Histories *histories;      /* engine thread; NULL: no answer is kept */
    NoHistory no_history;
    DraftCallList calls; /* calls of clients that the store has not answered */
} ServiceDrafts;

struct Service { /* all loop */
    Loop loop;
    Config *config;        /* live settings change in place on SIGHUP */
    AccountTable accounts; /* any thread */
    unsigned int n_threads;
    Outbox *outbox;
    EngineThread *engine_thread;
    ConstraintStore *constraints;
    ServiceDrafts drafts;
    PrefixCache *prefix_cache; /* engine thread; NULL: nothing is kept */
    ModelPairs pairs;
    ModelDefault def;
    ModelRegistry models;
    ModelFolder folder;
    struct event *scan; /* runs the next step of the models' folder */
    UserTable users;
    RequestTable requests;
    SessionTable sessions;
    bool draining;
    uint64_t started_ns;
};

/* Takes the configuration. The caller makes loop.settle and scan before anything runs on the loop. 0 or -errno with a
 * text; service_deinit() in any case. */
int service_init(Service *service, Config **configp, ErrText *err);
/* Checks that the limits on memory leave an app room to connect. 0, or SERVICE_E_LIMITS with a text. */
int service_check_limits(const Config *config, ErrText *err);
void service_deinit(Service *service); /* after service_stop(); frees loop.settle and scan too */
/* Takes over settings that are parsed once and used often, at the start and after a reload. 0, or -ENOMEM: nothing has
 * changed. */
int service_take_settings(Service *service);
/* Adds the configuration's models and those of the folder. 0 or -errno with a text. */
int service_add_models(Service *service, ErrText *err);
void service_load_first(Service *service);    /* loads the models of the start */
void service_warn_sections(Service *service); /* warns of sections of unknown models */
/* Starts the draft database's thread, after everything else. 0 or -errno with a text. */
int service_start_draft_store(Service *service, ErrText *err);
void service_settle(Service *service);           /* acts on ends and changes, at the top of the loop */
bool service_take_news(Service *service);        /* handles news of the engine thread; true: there may be more */
bool service_is_drained(const Service *service); /* no client waits for an answer or has one to read */
/* Ends all requests and the engine thread, before anything that it uses is freed. 0, or -ETIMEDOUT: it still runs. */
int service_stop(Service *service);

#endif
