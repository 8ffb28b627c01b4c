// SPDX-License-Identifier: Apache-2.0
/* The draft database: what finished generations said, kept for each user's apps, so that later requests can be drafted
 * from it. Token sequences in an SQLite file; every call tells of one uid alone. A connection belongs to one thread; a
 * file has one connection among all processes. No token ever reaches an error's text. */
#ifndef COORDGEN_SPEC_DRAFT_DB_H
#define COORDGEN_SPEC_DRAFT_DB_H

#include "base/cleanup.h"
#include "base/err.h"
#include "spec/db/draft_clock.h"
#include "spec/db/draft_db_types.h"

/* Called for each document; a result other than 0 ends the reading. The document is the callback's until it returns. */
typedef int DraftDbVisit(void *arg, const DraftDbDocument *document);
typedef int DraftDbVisitStats(void *arg, const DraftDbStats *stats);

int draft_db_open(DraftDb **dbp, const char *path, const DraftDbLimits *limits, const DraftClockReading *now,
                  ErrText *err);
DraftDb *draft_db_free(DraftDb *db);
DEFINE_CLEANUP(DraftDb, draft_db_free)

int draft_db_add(DraftDb *db, const DraftDbDocument *document, const DraftClockReading *now, ErrText *err);
int draft_db_each(DraftDb *db, uint32_t uid, const uint8_t *tokenizer, uint64_t n_tokens_max, DraftDbVisit *visit,
                  void *arg, DraftDbRead *readp, ErrText *err);
/* Lists users with documents of the tokenizer: up to max uids, the owner of the newest document first. */
int draft_db_recent(DraftDb *db, const uint8_t *tokenizer, uint32_t *uids, size_t max, size_t *np, ErrText *err);
int draft_db_stats(DraftDb *db, uint32_t uid, DraftDbStats *statsp, ErrText *err);
int draft_db_stats_each(DraftDb *db, DraftDbVisitStats *visit, void *arg, ErrText *err);
int draft_db_forget(DraftDb *db, const DraftDbForget *what, uint64_t *n_documentsp, ErrText *err);
/* Deletes what is older than the limit; for a timer. */
int draft_db_expire(DraftDb *db, const DraftClockReading *now, ErrText *err);
int draft_db_freeze(DraftDb *db, uint32_t uid, bool frozen, ErrText *err);

#endif
