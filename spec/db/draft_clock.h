// SPDX-License-Identifier: Apache-2.0
/* The time by which stored answers grow old. Time that the machine runs is exact, whatever its date is. Time that it
 * was off, a pause, is what the date says afterwards: the next start, or a day, must agree, and steps are small. */
#ifndef COORDGEN_SPEC_DRAFT_CLOCK_H
#define COORDGEN_SPEC_DRAFT_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRAFT_CLOCK_BOOT_BYTES = 16,
    DRAFT_CLOCK_PAUSES_MAX = 256,
    DRAFT_CLOCK_SLACK_S = 60, /* by which a date may drift before it is said to jump */
    DRAFT_CLOCK_STEPS = 8,    /* a look at the pauses ages nothing by more than this part of the limit */
    DRAFT_CLOCK_LOOKS = 64,   /* looks are at a start, and after this part of the limit */
};
#define DRAFT_CLOCK_DATE_MIN_S INT64_C(1577836800) /* 2020: a clock before that is not set */

/* What the system's clocks say at one moment. */
typedef struct DraftClockReading {
    uint64_t wall_s;                      /* the date, since 1970 */
    uint64_t boot_s;                      /* since the machine was started, with the time it slept */
    uint64_t awake_s;                     /* without that */
    uint8_t boot[DRAFT_CLOCK_BOOT_BYTES]; /* which start that was */
} DraftClockReading;

/* Time that the machine was off, or by which its date was set forward. */
typedef struct DraftPause {
    int64_t document;   /* the last document that was stored before it */
    int64_t claimed_s;  /* how long it was, as the date says */
    int64_t seen_s;     /* that, at the last look */
    int64_t believed_s; /* what of it ages the documents before it */
} DraftPause;

typedef struct DraftClock {
    uint8_t boot[DRAFT_CLOCK_BOOT_BYTES];
    int64_t wall_s, boot_s, awake_s; /* of the last reading; the date without what it has drifted since */
    int64_t ran_s;                   /* how long the machine has run */
    int64_t behind_s, behind_seen_s; /* by which the date went back and has not come forward again; at the last look */
    int64_t looked_s;                /* ran_s at the last look */
    bool has_looked;                 /* since this start of the machine */
    int64_t start;                   /* the last document before this start; -1: a jump forward has come since */
    size_t n_pauses;
    DraftPause pauses[DRAFT_CLOCK_PAUSES_MAX]; /* by document, each once */
} DraftClock;

void draft_clock_read_system(DraftClockReading *reading);
/* Begins at a reading with ran_s, without a pause. */
void draft_clock_init(DraftClock *clock, const DraftClockReading *reading, int64_t ran_s);
/* Goes on to a reading; document: the last one that is stored, 0: none; age_max_s: 0: nothing grows too old. */
void draft_clock_advance(DraftClock *clock, const DraftClockReading *reading, int64_t document, uint64_t age_max_s);
/* Drops pauses that age nothing: those before the first document, but for the newest few. */
void draft_clock_prune(DraftClock *clock, int64_t first_document);
/* The date for a document that is stored now. */
int64_t draft_clock_date_s(const DraftClock *clock, const DraftClockReading *reading);
/* What of all pauses is not believed yet. */
int64_t draft_clock_doubted_s(const DraftClock *clock);

#endif
