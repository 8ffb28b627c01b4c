// SPDX-License-Identifier: Apache-2.0
/* The registry of users (uids), with the connections, requests, sessions, places and memory of each. Every take and
 * release updates the counts, so that no code must search all connections or requests. A user is known while it has a
 * connection, request or session. */
#ifndef COORDGEN_DAEMON_USER_H
#define COORDGEN_DAEMON_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "base/queue.h"
#include "daemon/config/config.h"
#include "daemon/loop.h"

#define ADMIN_CONNECTIONS_MAX 16 /* connections of administrators have places of their own */

TAILQ_HEAD(PeerList, Peer);
typedef struct PeerList PeerList;
TAILQ_HEAD(RequestList, Request);
typedef struct RequestList RequestList;
typedef struct UserTable UserTable;

/* Kinds of places for generations: see admission.h. */
typedef enum PlaceKind {
    PLACE_OTHER,
    PLACE_INTERACTIVE,
    _PLACE_N,
} PlaceKind;

typedef struct UserPlaces {
    unsigned int n_active;      /* generations with the engine thread, administrators' too */
    unsigned int n_apps_active; /* part of n_active: of apps */
    unsigned int n_resting;     /* part of n_active: have given their place up for now */
    unsigned int n_running;     /* part of n_active: have a place */
    unsigned int n_waiting;     /* generations in the queue */
    uint64_t served_ns;         /* time with a place, summed over places, on the clock of AdmissionPlaces */
} UserPlaces;

typedef struct User { /* all loop */
    UserTable *table;
    uid_t uid;
    unsigned int n_refs;
    PeerList peers;             /* all connected clients: apps and administrators */
    RequestList requests;       /* all requests, also those whose client has gone */
    unsigned int n_connections; /* connections of this user's apps */
    unsigned int n_sessions;    /* open ones */
    unsigned int n_held_back;   /* requests of apps that wait, and small ones with the engine thread */
    uint64_t client_bytes;      /* bytes of apps on the account sessions */
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
    unsigned int n_connections; /* connections of all users' apps */
    unsigned int n_admin_connections;
    uint64_t last_connection; /* serials, for the log */
};

void user_table_init(UserTable *table, Loop *loop, const Config *config, AccountTable *accounts);
User *user_next(const UserTable *table, const User *user); /* iterates in any order; NULL begins and ends */
User *user_find(UserTable *table, uid_t uid);              /* NULL: not known */
User *user_get(UserTable *table, uid_t uid); /* takes a reference; makes the user if it is not known. NULL: no memory */
User *user_ref(User *user);
User *user_unref(User *user);                 /* NULL is allowed */
unsigned int user_n_active(const User *user); /* generations with the engine thread */
DEFINE_CLEANUP(User, user_unref)

/* user_memory.c: charges memory for a client of this user to the account sessions. 0, or ACCOUNT_E_LIMIT:
 * user_memory_limit() names the limit. */
int user_charge(User *user, bool is_admin, Bill *bill, uint64_t bytes);
const char *user_memory_limit(const User *user, bool is_admin);

#endif
