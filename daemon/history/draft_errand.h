// SPDX-License-Identifier: Apache-2.0
/* A task for the thread of the draft database, with its result. An errand belongs to one thread at a time, and passes
 * to the next thread by the lists of draft_store.h. */
#ifndef COORDGEN_DAEMON_DRAFT_ERRAND_H
#define COORDGEN_DAEMON_DRAFT_ERRAND_H

#include <stdbool.h>

#include "base/memory/account.h"
#include "base/queue.h"
#include "spec/db/draft_db.h"
#include "spec/db/draft_db_transfer.h"
#include "spec/sources/history.h"

typedef enum DraftErrandKind {
    DRAFT_ADD,    /* engine thread: stores a finished answer, which then goes into the History in memory */
    DRAFT_BUILD,  /* engine thread: builds a History of the stored answers */
    DRAFT_RECENT, /* engine thread: finds the users who were answered lately */
    DRAFT_STATS,  /* loop, like all kinds below */
    DRAFT_FORGET,
    DRAFT_FREEZE,
    DRAFT_EXPORT,
    DRAFT_IMPORT,
} DraftErrandKind;

enum {
    DRAFT_RECENT_MAX = 8
};

typedef struct DraftErrand DraftErrand;

typedef struct DraftAnswer { /* DRAFT_ADD */
    uint32_t *tokens;
    size_t n_tokens, room;
    bool is_incomplete; /* some tokens had no memory: the answer is not stored */
} DraftAnswer;

typedef struct DraftForget { /* DRAFT_FORGET */
    bool has_tokenizer;      /* only documents of the errand's tokenizer */
    bool has_before;         /* only documents older than before_s */
    uint64_t before_s;
} DraftForget;

typedef struct DraftResult {
    int r; /* 0, DRAFT_DB_E_*, -errno, with a text */
    ErrText err;
    History *history;                  /* BUILD */
    uint32_t recent[DRAFT_RECENT_MAX]; /* RECENT: uids */
    size_t n_recent;
    uint64_t n_documents; /* FORGET, EXPORT, IMPORT */
    uint64_t n_expired;   /* IMPORT */
    DraftDbStats *stats;  /* STATS: of all users with documents, or of uid */
    size_t n_stats;
} DraftResult;

typedef struct DraftOwner { /* loop: the client that waits for the result */
    void *client;           /* NULL: it waits no more */
    uint64_t request_id;
    uint32_t uid; /* const: the user who has asked, whether or not the client still waits */
    TAILQ_ENTRY(DraftErrand) link;
} DraftOwner;

struct DraftErrand {
    DraftErrandKind kind;
    uint32_t uid;
    uint8_t tokenizer[DRAFT_DB_TOKENIZER_BYTES];
    DraftAnswer answer;
    DraftForget forget;
    bool of_all_users; /* STATS, FORGET: not for uid alone */
    bool is_frozen;    /* FREEZE: false thaws */
    int fd;            /* file in memory; EXPORT: out; IMPORT: in; -1: none */
    Bill bill;         /* memory of the answer's tokens, or of the file behind fd */
    DraftResult result;
    DraftOwner owner;
    STAILQ_ENTRY(DraftErrand) link; /* guarded by the lock of the errand's list */
};

STAILQ_HEAD(DraftErrandList, DraftErrand);
typedef struct DraftErrandList DraftErrandList;

DraftErrand *draft_errand_new(DraftErrandKind kind, uint32_t uid, const uint8_t *tokenizer); /* NULL: no memory */
DraftErrand *draft_errand_free(DraftErrand *errand); /* also frees history and tokens, and closes the file */
DEFINE_CLEANUP(DraftErrand, draft_errand_free)

/* Appends a token to a DRAFT_ADD; without memory the errand becomes incomplete. */
void draft_errand_add_token(DraftErrand *errand, AccountTable *accounts, uint32_t token);

#endif
