// SPDX-License-Identifier: Apache-2.0
/* The registry of users (uids), and of what each holds of the service: connections, requests, sessions, places, memory.
 * Counts go where things are taken and given back: nobody looks through all connections or requests to find out. A user
 * is known while a connection, request or session of it is there. */
#ifndef COORDGEN_DAEMON_USER_H
#define COORDGEN_DAEMON_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "base/queue.h"
#include "daemon/config.h"
#include "daemon/loop.h"

#define ADMIN_CONNECTIONS_MAX 16 /* places of their own */

TAILQ_HEAD(PeerList, Peer);
typedef struct PeerList PeerList;
TAILQ_HEAD(RequestList, Request);
typedef struct RequestList RequestList;
typedef struct UserTable UserTable;

/* Places for generations are of two kinds: see admission.h. */
typedef enum PlaceKind {
    PLACE_OTHER,
    PLACE_INTERACTIVE,
    _PLACE_N,
} PlaceKind;

typedef struct UserPlaces {
    unsigned int n_active;      /* generations with the engine thread, administrators' too */
    unsigned int n_apps_active; /* of them, those of apps */
    unsigned int n_resting;     /* of them, those that have given their place up for now */
    unsigned int n_running;     /* of them, those that have a place */
    unsigned int n_waiting;     /* generations in the queue */
    uint64_t served_ns;         /* places times time that they were had, on the clock of AdmissionPlaces */
} UserPlaces;

typedef struct User { /* all loop */
    UserTable *table;
    uid_t uid;
    unsigned int n_refs;
    PeerList peers;             /* apps and administrators: all that are connected */
    RequestList requests;       /* of both, also those whose client is gone */
    unsigned int n_connections; /* of apps */
    unsigned int n_sessions;    /* open ones */
    unsigned int n_held_back;   /* apps' requests that wait, and small ones with the engine thread */
    uint64_t client_bytes;      /* that apps have on the account sessions */
    UserPlaces places[_PLACE_N];
    LIST_ENTRY(User) link;
} User;

LIST_HEAD(UserList, User);

enum {
    USER_BUCKETS = 64,
};

struct UserTable { /* all loop */
    Loop *loop;
    const Config *config;
    AccountTable *accounts;
    struct UserList buckets[USER_BUCKETS];
    unsigned int n_connections; /* of apps, all users' */
    unsigned int n_admin_connections;
    uint64_t last_connection; /* serials, for the log */
};

void user_table_init(UserTable *table, Loop *loop, const Config *config, AccountTable *accounts);
User *user_next(const UserTable *table, const User *user); /* of all that are known, in any order; NULL: begin, end */
User *user_find(UserTable *table, uid_t uid);              /* NULL: holds nothing */
User *user_get(UserTable *table, uid_t uid); /* one more hold on it; made where there is none. NULL: no memory */
User *user_ref(User *user);
User *user_unref(User *user);                 /* NULL is allowed */
unsigned int user_n_active(const User *user); /* generations with the engine thread */
DEFINE_CLEANUP(User, user_unref)

/* user_memory.c: charges the account sessions for what a client of this user asks for. 0, or ACCOUNT_E_LIMIT:
 * user_memory_limit() was reached. */
int user_charge(User *user, bool is_admin, Bill *bill, uint64_t bytes);
const char *user_memory_limit(const User *user, bool is_admin);

#endif
