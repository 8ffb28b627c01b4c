// SPDX-License-Identifier: Apache-2.0
/* How old the documents of a draft database are: its clock (draft_clock.h), which it keeps in the file, and what
 * goes when it is too old. Within a transaction that the caller has begun. */
#ifndef COORDGEN_SPEC_DRAFT_DB_AGE_H
#define COORDGEN_SPEC_DRAFT_DB_AGE_H

#include "spec/db/draft_db.h"

typedef struct DraftDbMoment {
    int64_t date_s;    /* for a document that is stored now */
    int64_t ran_s;     /* by which its age counts */
    int64_t doubted_s; /* pauses that are not believed yet: the date may be ahead by that */
} DraftDbMoment;

/* The clock goes on to now, in the file too. */
int draft_db_age_advance(DraftDb *db, const DraftClockReading *now, DraftDbMoment *momentp, ErrText *err);
/* What is older than the limit goes, frozen users' documents apart. */
int draft_db_age_trim(DraftDb *db, const DraftDbMoment *moment, ErrText *err);
/* Whether so much time has passed since the last draft_db_age_trim() that a document's age could show it. */
bool draft_db_age_is_due(const DraftDb *db, const DraftDbMoment *moment);

#endif
