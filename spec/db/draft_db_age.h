// SPDX-License-Identifier: Apache-2.0
/* Ages of the documents of a draft database: its clock (draft_clock.h), which the file keeps, and the deletion of what
 * is too old. All calls are within a transaction that the caller has begun. */
#ifndef COORDGEN_SPEC_DRAFT_DB_AGE_H
#define COORDGEN_SPEC_DRAFT_DB_AGE_H

#include "spec/db/draft_db.h"

typedef struct DraftDbMoment {
    int64_t date_s;    /* date of a document that is stored now */
    int64_t ran_s;     /* run time by which that document's age counts */
    int64_t doubted_s; /* seconds of pauses that are not believed yet: the date may be ahead by that */
} DraftDbMoment;

/* Advances the clock to now, in the file too. */
int draft_db_age_advance(DraftDb *db, const DraftClockReading *now, DraftDbMoment *momentp, ErrText *err);
/* Deletes what is older than the limit, frozen users' documents excepted. */
int draft_db_age_trim(DraftDb *db, const DraftDbMoment *moment, ErrText *err);
/* Whether so much time has passed since the last draft_db_age_trim() that a document could have grown too old. */
bool draft_db_age_is_due(const DraftDb *db, const DraftDbMoment *moment);

#endif
