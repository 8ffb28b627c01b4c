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

typedef struct DraftErrand {
    DraftErrandKind kind;
    uint32_t uid;
    uint8_t tokenizer[DRAFT_DB_TOKENIZER_BYTES];

    uint32_t *tokens; /* DRAFT_ADD: of the answer */
    size_t n_tokens, room;
    bool is_incomplete; /* some tokens had no memory: the answer is not stored */
    Bill bill;          /* memory of tokens, or of the file behind fd */

    History *history;                  /* DRAFT_BUILD, out */
    uint32_t recent[DRAFT_RECENT_MAX]; /* RECENT: out, uids */
    size_t n_recent;

    bool of_all_users;  /* STATS, FORGET: not for uid alone */
    bool has_tokenizer; /* FORGET: only documents of this tokenizer */
    bool has_before;    /* FORGET: only documents older than before_s */
    uint64_t before_s;
    bool is_frozen; /* FREEZE: false thaws */
    int fd;         /* file in memory; EXPORT: out; IMPORT: in; -1: none */

    int r; /* out: 0, DRAFT_DB_E_*, -errno, with a text */
    ErrText err;
    uint64_t n_documents; /* FORGET, EXPORT, IMPORT: out */
    uint64_t n_expired;   /* IMPORT: out */
    DraftDbStats *stats;  /* STATS: out; of all users with documents, or of uid */
    size_t n_stats;

    void *owner; /* loop: the client that waits; NULL: none any more */
    uint64_t owner_id;
    uint32_t owner_uid;                  /* const: the user who has asked, whether or not the client still waits */
    TAILQ_ENTRY(DraftErrand) owner_link; /* loop */
    STAILQ_ENTRY(DraftErrand) link;      /* guarded by the lock of the errand's list */
} DraftErrand;

STAILQ_HEAD(DraftErrandList, DraftErrand);
typedef struct DraftErrandList DraftErrandList;

DraftErrand *draft_errand_new(DraftErrandKind kind, uint32_t uid, const uint8_t *tokenizer); /* NULL: no memory */
DraftErrand *draft_errand_free(DraftErrand *errand); /* also frees history and tokens, and closes the file */
DEFINE_CLEANUP(DraftErrand, draft_errand_free)

/* Appends a token to a DRAFT_ADD; without memory the errand becomes incomplete. */
void draft_errand_add_token(DraftErrand *errand, AccountTable *accounts, uint32_t token);

#endif
