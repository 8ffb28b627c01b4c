// SPDX-License-Identifier: Apache-2.0
/* The clock by which stored answers grow old. Time that the machine runs counts exactly, whatever the date is. Time
 * that it was off (a pause) is what the date says afterwards: the next start, or a day, must agree, and steps are
 * small. */
#ifndef COORDGEN_SPEC_DRAFT_CLOCK_H
#define COORDGEN_SPEC_DRAFT_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRAFT_CLOCK_BOOT_BYTES = 16,
    DRAFT_CLOCK_PAUSES_MAX = 256,
    DRAFT_CLOCK_SLACK_S = 60, /* most that a date may drift before it counts as a jump */
    DRAFT_CLOCK_STEPS = 8,    /* a look at the pauses ages nothing by more than this part of the limit */
    DRAFT_CLOCK_LOOKS = 64,   /* looks come at a start, and after this part of the limit */
};
#define DRAFT_CLOCK_DATE_MIN_S INT64_C(1577836800) /* 2020: a clock before that date is not set */

/* Readings of the system's clocks at one moment. */
typedef struct DraftClockReading {
    uint64_t wall_s;                      /* the date: seconds since 1970 */
    uint64_t boot_s;                      /* seconds since the machine was started, its sleep included */
    uint64_t awake_s;                     /* boot_s without the sleep */
    uint8_t boot[DRAFT_CLOCK_BOOT_BYTES]; /* identity of that start */
} DraftClockReading;

/* A pause: time that the machine was off, or by which its date was set forward. */
typedef struct DraftPause {
    int64_t document;   /* last document that was stored before the pause */
    int64_t claimed_s;  /* length of the pause, as the date says */
    int64_t seen_s;     /* claimed_s at the last look */
    int64_t believed_s; /* part of the pause that ages the documents before it */
} DraftPause;

typedef struct DraftClock {
    uint8_t boot[DRAFT_CLOCK_BOOT_BYTES];
    int64_t wall_s, boot_s, awake_s; /* the last reading; the date without what it has drifted since */
    int64_t ran_s;                   /* seconds that the machine has run */
    /* seconds that the date went back and has not come forward again; at the last look */
    int64_t behind_s, behind_seen_s;
    int64_t looked_s; /* ran_s at the last look */
    bool has_looked;  /* whether a look came since this start of the machine */
    int64_t start;    /* last document before this start; -1: a jump forward has come since */
    size_t n_pauses;
    DraftPause pauses[DRAFT_CLOCK_PAUSES_MAX]; /* by document, each document once */
} DraftClock;

void draft_clock_read_system(DraftClockReading *reading);
/* Begins at a reading with ran_s, without a pause. */
void draft_clock_init(DraftClock *clock, const DraftClockReading *reading, int64_t ran_s);
/* Advances to a reading. document: the last one that is stored, 0: none; age_max_s: 0: nothing grows too old. */
void draft_clock_advance(DraftClock *clock, const DraftClockReading *reading, int64_t document, uint64_t age_max_s);
/* Drops pauses that age nothing: those before the first document, but for the newest few. */
void draft_clock_prune(DraftClock *clock, int64_t first_document);
/* Returns the date for a document that is stored now. */
int64_t draft_clock_date_s(const DraftClock *clock, const DraftClockReading *reading);
/* Returns the seconds of all pauses that are not believed yet. */
int64_t draft_clock_doubted_s(const DraftClock *clock);

#endif
