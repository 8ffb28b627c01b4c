// SPDX-License-Identifier: Apache-2.0
/* What the thread of the draft database is to do, and what came of it. One thread has an errand at a time; it goes from
 * one to the next by the lists of draft_store.h. */
#ifndef COORDGEN_DAEMON_DRAFT_ERRAND_H
#define COORDGEN_DAEMON_DRAFT_ERRAND_H

#include <stdbool.h>

#include "base/memory/account.h"
#include "base/queue.h"
#include "spec/db/draft_db.h"
#include "spec/db/draft_db_transfer.h"
#include "spec/sources/history.h"

typedef enum DraftErrandKind {
    DRAFT_ADD,    /* the engine thread's: a finished answer is stored, and then added to what is in memory */
    DRAFT_BUILD,  /* the engine thread's: a History of what is stored */
    DRAFT_RECENT, /* likewise: who has said something lately */
    DRAFT_STATS,  /* from here on the loop's */
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
    bool is_incomplete; /* there was no memory for all of them: it is not stored */
    Bill bill;          /* of tokens, or of what is behind fd */

    History *history;                  /* DRAFT_BUILD, out */
    uint32_t recent[DRAFT_RECENT_MAX]; /* RECENT: out, uids */
    size_t n_recent;

    bool of_all_users;  /* STATS, FORGET: not of uid alone */
    bool has_tokenizer; /* FORGET: documents of this one alone */
    bool has_before;    /* FORGET: documents from before that alone */
    uint64_t before_s;
    bool is_frozen; /* FREEZE: or thawed */
    int fd;         /* EXPORT: out, of a file in memory; IMPORT: of one; -1: none */

    int r; /* out: 0, DRAFT_DB_E_*, -errno, with a text */
    ErrText err;
    uint64_t n_documents; /* FORGET, EXPORT, IMPORT: out */
    uint64_t n_expired;   /* IMPORT: out */
    DraftDbStats *stats;  /* STATS: out; of those who have something, or of uid */
    size_t n_stats;

    void *owner; /* loop: who waits for it; NULL: nobody any more */
    uint64_t owner_id;
    uint32_t owner_uid;                  /* const: who has asked, whether or not it waits */
    TAILQ_ENTRY(DraftErrand) owner_link; /* loop */
    STAILQ_ENTRY(DraftErrand) link;      /* of the list it is in: that list's lock */
} DraftErrand;

STAILQ_HEAD(DraftErrandList, DraftErrand);
typedef struct DraftErrandList DraftErrandList;

DraftErrand *draft_errand_new(DraftErrandKind kind, uint32_t uid, const uint8_t *tokenizer); /* NULL: no memory */
DraftErrand *draft_errand_free(DraftErrand *errand); /* its history, tokens and file too */
DEFINE_CLEANUP(DraftErrand, draft_errand_free)

/* DRAFT_ADD: one token more; where there is no memory for it the errand is incomplete. */
void draft_errand_add_token(DraftErrand *errand, AccountTable *accounts, uint32_t token);

#endif
