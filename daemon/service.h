// SPDX-License-Identifier: Apache-2.0
/* What the daemon serves its clients with: the loop, users, models, requests, sessions and the engine thread. Signals,
 * timers and listening sockets are the server's. */
#ifndef COORDGEN_DAEMON_SERVICE_H
#define COORDGEN_DAEMON_SERVICE_H

#include "daemon/engine/outbox.h"
#include "daemon/history/histories.h"
#include "daemon/models/model_folder.h"
#include "daemon/requests/request_table.h"
#include "daemon/requests/session.h"
#include "daemon/users/no_history.h"

enum {
    SERVICE_E_LIMITS = 1, /* the limits on memory contradict each other */
};

enum {
    SERVICE_STORE_MS = 5000, /* for what was answered to be stored */
    SERVICE_STOP_MS = 2000,  /* for the engine thread to end after its last step */
};

TAILQ_HEAD(DraftCallList, DraftErrand);
typedef struct DraftCallList DraftCallList;

struct Service { /* all loop */
    Loop loop;
    Config *config;        /* live settings change in place on SIGHUP */
    AccountTable accounts; /* any thread */
    unsigned int n_threads;
    Outbox *outbox;
    EngineThread *engine_thread;
    DraftStore *draft_store; /* NULL: no answer is kept for later drafts */
    Histories *histories;    /* engine thread; NULL: likewise */
    NoHistory no_history;
    DraftCallList draft_calls; /* of clients, with the draft store */
    PrefixCache *prefix_cache; /* engine thread; NULL: nothing is kept */
    ModelPairs pairs;
    ModelDefault def;
    ModelRegistry models;
    ModelFolder folder;
    struct event *scan; /* of the models' folder, the next part of it */
    UserTable users;
    RequestTable requests;
    SessionTable sessions;
    bool draining;
    uint64_t started_ns;
};

/* Takes the configuration. loop.settle and scan are the caller's to make, before anything happens on the loop. 0 or
 * -errno with a text; service_deinit() in any case. */
int service_init(Service *service, Config **configp, ErrText *err);
/* Whether the limits on memory leave an app room to connect. 0, or SERVICE_E_LIMITS with a text. */
int service_check_limits(const Config *config, ErrText *err);
void service_deinit(Service *service); /* stopped before; with loop.settle and scan */
/* Settings that are read once and used often: at the start, and after a reload. 0 or -ENOMEM: they are as before. */
int service_take_settings(Service *service);
/* The configuration's model, and those of the folder. 0 or -errno with a text. */
int service_add_models(Service *service, ErrText *err);
void service_load_first(Service *service);    /* what is to be loaded at the start */
void service_warn_sections(Service *service); /* those of models that there are not */
/* Opens the draft database behind everything else; news of it are on the loop from here on. */
int service_start_draft_store(Service *service, ErrText *err);
void service_settle(Service *service);           /* at the top of the loop, when something has ended or changed */
bool service_take_news(Service *service);        /* of the engine thread; whether there may be more */
bool service_is_drained(const Service *service); /* nobody waits for an answer or has one to read */
/* Ends all requests and the engine thread: only then may what it uses be freed. 0, or -ETIMEDOUT: it still runs. */
int service_stop(Service *service);

#endif
