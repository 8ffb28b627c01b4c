// SPDX-License-Identifier: Apache-2.0
/* The draft database for the store's thread: opens the database when possible, deletes old documents, and serves
 * errands. Only that thread calls these functions. */
#ifndef COORDGEN_DAEMON_DRAFT_SERVER_H
#define COORDGEN_DAEMON_DRAFT_SERVER_H

#include <stdatomic.h>

#include "daemon/history/draft_errand.h"

enum {
    DRAFT_SERVER_HISTORY_BYTES = 32 << 20 /* a History at most: some 360,000 tokens */
};

#define DRAFT_SERVER_EXPIRE_NS (UINT64_C(3600) * 1000 * 1000 * 1000) /* between two searches for old documents */
#define DRAFT_SERVER_RETRY_NS (UINT64_C(60) * 1000 * 1000 * 1000)    /* until a database that failed is opened again */
#define DRAFT_SERVER_BUSY_NS (UINT64_C(3) * 1000 * 1000 * 1000)      /* until the next attempt on a busy database */

typedef struct DraftServer {
    char *path;                           /* const; the store frees it */
    DraftDbLimits limits;                 /* const */
    AccountTable *accounts;               /* const */
    _Atomic bool is_stopping;             /* the store sets: reading for a History ends early */
    _Atomic uint64_t n_stored, n_dropped; /* answers; any thread reads */

    /* The store's thread. */
    DraftDb *db;        /* NULL: the database cannot be used */
    int why_r;          /* without db: what draft_db_open() has returned */
    ErrText why;        /* without db: the reason; empty: opening has never failed, or has succeeded since */
    uint64_t retry_ns;  /* without db: when to try again */
    uint64_t expire_ns; /* when to look for old documents */
} DraftServer;

/* Tells whether the database can be used, and opens the database if an attempt is due. */
bool draft_server_ready(DraftServer *server);
/* Deletes documents that are too old, once an hour. */
void draft_server_expire(DraftServer *server);
/* Stores an answer (DRAFT_ADD). 0: the answer is on disk, and the engine thread must be told. */
int draft_server_add(DraftServer *server, DraftErrand *errand);
void draft_server_build(DraftServer *server, DraftErrand *errand);  /* DRAFT_BUILD */
void draft_server_recent(DraftServer *server, DraftErrand *errand); /* DRAFT_RECENT */
/* Serves the other kinds, which a client asks for. Return: DraftErrand.r, with a text in its err. */
int draft_server_call(DraftServer *server, DraftErrand *errand);

#endif
