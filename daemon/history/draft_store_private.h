// SPDX-License-Identifier: Apache-2.0
/* Inside of the store of drafts: what draft_store.c (life, the thread, its lists) shares with draft_store_errands.c
 * (what the thread does with the database). */
#ifndef COORDGEN_DAEMON_DRAFT_STORE_PRIVATE_H
#define COORDGEN_DAEMON_DRAFT_STORE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/history/draft_store.h"

#define DRAFT_STORE_EXPIRE_NS (UINT64_C(3600) * 1000 * 1000 * 1000)
#define DRAFT_STORE_RETRY_NS (UINT64_C(3) * 1000 * 1000 * 1000)  /* to open one that another process has */
#define DRAFT_STORE_QUIET_NS (UINT64_C(60) * 1000 * 1000 * 1000) /* between two log lines of one kind, and two tries */

/* At most a line in so long; how many it stands for. */
typedef struct QuietLog {
    uint64_t until_ns;
    uint64_t n;
} QuietLog;

struct DraftStore {
    char *path;             /* const */
    DraftDbLimits limits;   /* const */
    AccountTable *accounts; /* const */
    void (*on_news)(void *arg);
    void *on_news_arg;
    pthread_t thread;
    bool is_started, is_joined; /* loop */
    int fd;                     /* const: of answers */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    DraftErrandList queue;   /* lock */
    uint64_t waiting_bytes;  /* lock: of tokens in the queue */
    bool stopping;           /* lock */
    QuietLog overflows;      /* lock */
    DraftErrandList news;    /* lock */
    DraftErrandList answers; /* lock */
    _Atomic bool has_news;
    _Atomic bool is_stopping; /* the same as stopping, for what looks at it without the lock */
    _Atomic uint64_t n_stored, n_dropped;

    /* The store's thread. */
    DraftDb *db;       /* NULL: it cannot be used */
    int why_r;         /* then: why not, as draft_db_open() has said */
    ErrText why;       /* then: why not; empty: it has never failed, or was opened since */
    uint64_t retry_ns; /* then: not before */
    uint64_t expire_ns;
    QuietLog failures;
};

/* Whether a line is due; *np: how many it is of. */
bool draft_store_log_due(QuietLog *quiet, uint64_t *np);

/* All below: the store's thread. */

/* Whether the database can be used. */
bool draft_store_ready(DraftStore *store);
/* Lets go of what is too old, once in a while. */
void draft_store_expire(DraftStore *store);
/* The errand of that kind: 0 where somebody is to hear of it. */
int draft_store_add(DraftStore *store, DraftErrand *errand);
void draft_store_build(DraftStore *store, DraftErrand *errand);
void draft_store_recent(DraftStore *store, DraftErrand *errand);
/* What a client asks for: the errand's answer. */
int draft_store_call(DraftStore *store, DraftErrand *errand);

#endif
