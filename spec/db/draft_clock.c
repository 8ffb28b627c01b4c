// SPDX-License-Identifier: Apache-2.0
/*
 * A date is wrong in one of three ways. A clock without a battery begins in 1970, or long ago, until the network sets
 * it. Somebody or something sets the date ahead. Later it is set back. None of these may take answers away at once, and
 * none may let answers outlive their limit.
 *
 * Within one start of the machine CLOCK_BOOTTIME counts, and the date does not. Between two starts the date alone tells
 * how long the machine was off. A jump forward is a pause behind the last document that is stored then. The pause ages
 * the documents before it, and none that are stored later, whatever becomes of it. The first jump of a start belongs to
 * the time before that start, because the network may set a clock late. A jump back cancels a pause of about the same
 * length. Any other jump back is remembered, and the next jump forward makes it good before it counts as a pause.
 */
#include "spec/db/draft_clock.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/min_max.h"

#define TIME_MAX_S (INT64_C(1) << 40)

/* Reads the start's number: 36 characters, 32 of them hex digits. Without the number (no /proc) starts are told apart
 * by a CLOCK_BOOTTIME that goes back. */
static void read_boot(uint8_t boot[DRAFT_CLOCK_BOOT_BYTES]) {
    _cleanup_(closep) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    char text[40] = "";
    size_t n_digits = 0;
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

    memset(boot, 0, DRAFT_CLOCK_BOOT_BYTES);
    for (ssize_t i = 0; i < n && n_digits < 2 * (size_t)DRAFT_CLOCK_BOOT_BYTES; i++) {
        const char c = text[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

        if (digit >= 0) {
            boot[n_digits / 2] |= (uint8_t)(digit << (n_digits % 2 ? 0 : 4));
            n_digits++;
        }
    }
}

void draft_clock_read_system(DraftClockReading *reading) {
    struct timespec wall = { 0 }, boot = { 0 }, awake = { 0 };

    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    reading->wall_s = wall.tv_sec > 0 ? (uint64_t)wall.tv_sec : 0;
    clock_gettime(CLOCK_MONOTONIC, &awake);
    reading->boot_s = (uint64_t)boot.tv_sec;
    reading->awake_s = (uint64_t)awake.tv_sec;
    read_boot(reading->boot);
}

static int64_t time_of(uint64_t value_s) {
    return value_s < (uint64_t)TIME_MAX_S ? (int64_t)value_s : TIME_MAX_S;
}

void draft_clock_init(DraftClock *clock, const DraftClockReading *reading, int64_t ran_s) {
    *clock = (DraftClock){ .wall_s = time_of(reading->wall_s),
                           .boot_s = time_of(reading->boot_s),
                           .awake_s = time_of(reading->awake_s),
                           .ran_s = ran_s,
                           .looked_s = ran_s,
                           .has_looked = true };
    memcpy(clock->boot, reading->boot, sizeof(clock->boot));
}

/* --- pauses ------------------------------------------------------------------------------------------------------- */

static void pause_remove(DraftClock *clock, size_t i) {
    clock->n_pauses--;
    memmove(&clock->pauses[i], &clock->pauses[i + 1], (clock->n_pauses - i) * sizeof(*clock->pauses));
}

/* Merges the pause behind i into i, which keeps its document. */
static void pause_merge(DraftClock *clock, size_t i) {
    clock->pauses[i].claimed_s += clock->pauses[i + 1].claimed_s;
    clock->pauses[i].seen_s += clock->pauses[i + 1].seen_s;
    clock->pauses[i].believed_s += clock->pauses[i + 1].believed_s;
    pause_remove(clock, i + 1);
}

/* Moves pauses to the last document that is left, so that they age no later one: numbers of documents are given again
 * when the newest ones are deleted. */
static void pauses_move(DraftClock *clock, int64_t document) {
    for (size_t i = clock->n_pauses; i-- > 0;) {
        clock->pauses[i].document = MIN(clock->pauses[i].document, document);
        if (i + 1 < clock->n_pauses && clock->pauses[i].document == clock->pauses[i + 1].document)
            pause_merge(clock, i);
    }
}

/* Makes room where there are too many pauses: the shortest joins the one before it, and so ages too few documents
 * rather than too many. */
static void pauses_make_room(DraftClock *clock) {
    size_t shortest = 1;

    for (size_t i = 2; i < clock->n_pauses; i++)
        if (clock->pauses[i].claimed_s < clock->pauses[shortest].claimed_s)
            shortest = i;
    pause_merge(clock, shortest - 1);
}

void draft_clock_prune(DraftClock *clock, int64_t first_document) {
    while (clock->n_pauses > DRAFT_CLOCK_PAUSES_MAX / 8 && clock->pauses[0].document < first_document)
        pause_remove(clock, 0);
}

static void add_pause(DraftClock *clock, int64_t document, int64_t claimed_s) {
    DraftPause *last = clock->n_pauses ? &clock->pauses[clock->n_pauses - 1] : NULL;

    if (last && last->document >= document) {
        last->claimed_s = MIN(last->claimed_s + claimed_s, TIME_MAX_S);
        return;
    }
    if (clock->n_pauses == DRAFT_CLOCK_PAUSES_MAX)
        pauses_make_room(clock);
    clock->pauses[clock->n_pauses++] = (DraftPause){ .document = document, .claimed_s = claimed_s };
}

/* Takes back the claim of a jump forward: of the newest that was at least half as long. The rest is remembered.
 * document: the last one if the machine was off meanwhile, else -1. Nobody can tell whether the rest of the claim lies
 * before or behind the documents with the wrong date: it ages these too. */
static void go_back(DraftClock *clock, int64_t back_s, int64_t document) {
    for (size_t i = clock->n_pauses; back_s > 0 && i-- > 0;) {
        DraftPause *pause = &clock->pauses[i], left;
        const int64_t taken_s = MIN(pause->claimed_s, back_s);

        if (pause->claimed_s < back_s / 2)
            continue;
        back_s -= taken_s;
        pause->claimed_s -= taken_s;
        pause->seen_s = MIN(pause->seen_s, pause->claimed_s);
        pause->believed_s = MIN(pause->believed_s, pause->claimed_s);
        left = *pause;
        if (!left.claimed_s || document > left.document)
            pause_remove(clock, i);
        if (left.claimed_s && document > left.document)
            add_pause(clock, document, left.claimed_s);
        i = clock->n_pauses; /* the rest may belong to another jump */
    }
    clock->behind_s = MIN(clock->behind_s + back_s, TIME_MAX_S);
}

static void go_forward(DraftClock *clock, int64_t forward_s, int64_t document, bool was_set) {
    const int64_t repaid_s = MIN(forward_s, clock->behind_s);

    clock->behind_s -= repaid_s;
    /* A clock that was never set tells nothing of how long the machine was off. */
    if (forward_s > repaid_s && (was_set || repaid_s))
        add_pause(clock, clock->start < 0 ? document : clock->start, forward_s - repaid_s);
    clock->start = -1;
}

/* --- looks -------------------------------------------------------------------------------------------------------- */

/* Believes what both the last look and this one see: a single wrong start is not seen twice. The newest pause comes
 * first, because it ages all documents that older pauses age. A date that stays behind becomes the right one in the
 * same way; while it is behind, no pause is believed. */
static void look(DraftClock *clock, int64_t step_s) {
    const bool is_behind = clock->behind_s >= DRAFT_CLOCK_SLACK_S;

    if (is_behind)
        clock->behind_s -= MIN(MIN(clock->behind_s, clock->behind_seen_s), step_s);
    for (size_t i = clock->n_pauses; i-- > 0;) {
        DraftPause *pause = &clock->pauses[i];
        const int64_t more_s = MIN(MIN(pause->claimed_s, pause->seen_s) - pause->believed_s, step_s);

        if (!is_behind && more_s > 0) {
            pause->believed_s += more_s;
            step_s -= more_s;
        }
        pause->seen_s = pause->claimed_s;
    }
    clock->behind_seen_s = clock->behind_s;
    clock->looked_s = clock->ran_s;
    clock->has_looked = true;
}

static void take_date(DraftClock *clock, int64_t wall_s, int64_t passed_s, int64_t document, bool is_other_start) {
    const int64_t jump_s = wall_s - clock->wall_s - passed_s;
    const bool was_set = clock->wall_s >= DRAFT_CLOCK_DATE_MIN_S;

    if (jump_s > -DRAFT_CLOCK_SLACK_S && jump_s < DRAFT_CLOCK_SLACK_S) {
        clock->wall_s += passed_s;
        return;
    }
    clock->wall_s = wall_s;
    if (jump_s > 0)
        go_forward(clock, jump_s, document, was_set);
    else if (wall_s < DRAFT_CLOCK_DATE_MIN_S)
        clock->behind_s = MIN(clock->behind_s - jump_s, TIME_MAX_S);
    else
        go_back(clock, -jump_s, is_other_start ? document : -1);
}

/* Returns the seconds that have passed within one start. The kernel knows the length of the machine's sleep from a
 * clock with a battery, which can be wrong like any date: a long sleep is judged by the date, as time off is. */
static int64_t passed_of(const DraftClock *clock, int64_t boot_s, int64_t awake_s, int64_t step_s) {
    const int64_t passed_s = boot_s - clock->boot_s, awake_passed_s = awake_s - clock->awake_s;

    if (passed_s < 0 || awake_passed_s < 0)
        return 0;
    return passed_s - awake_passed_s > step_s ? awake_passed_s : passed_s;
}

void draft_clock_advance(DraftClock *clock, const DraftClockReading *reading, int64_t document, uint64_t age_max_s) {
    const int64_t wall_s = time_of(reading->wall_s), boot_s = time_of(reading->boot_s);
    const int64_t awake_s = time_of(reading->awake_s), age_s = time_of(age_max_s);
    static const uint8_t unknown[DRAFT_CLOCK_BOOT_BYTES];
    const bool is_other_start = memcmp(clock->boot, reading->boot, sizeof(clock->boot)) ||
                                (boot_s < clock->boot_s && !memcmp(reading->boot, unknown, sizeof(unknown)));
    const int64_t step_s = age_s ? age_s / DRAFT_CLOCK_STEPS : TIME_MAX_S;
    const int64_t passed_s = is_other_start ? 0 : passed_of(clock, boot_s, awake_s, step_s);

    pauses_move(clock, document);
    clock->start = is_other_start ? document : MIN(clock->start, document);
    clock->has_looked &= !is_other_start;
    memcpy(clock->boot, reading->boot, sizeof(clock->boot));
    clock->boot_s = boot_s;
    clock->awake_s = awake_s;
    clock->ran_s += passed_s;
    take_date(clock, wall_s, passed_s, document, is_other_start);
    if (wall_s >= DRAFT_CLOCK_DATE_MIN_S &&
        (!clock->has_looked || clock->ran_s - clock->looked_s > age_s / DRAFT_CLOCK_LOOKS))
        look(clock, age_s / DRAFT_CLOCK_STEPS);
}

/* A date that is not set goes on from the last one. */
int64_t draft_clock_date_s(const DraftClock *clock, const DraftClockReading *reading) {
    const int64_t wall_s = time_of(reading->wall_s);

    return wall_s >= DRAFT_CLOCK_DATE_MIN_S ? wall_s : wall_s + clock->behind_s;
}

int64_t draft_clock_doubted_s(const DraftClock *clock) {
    int64_t sum_s = 0;

    for (size_t i = 0; i < clock->n_pauses; i++)
        sum_s += clock->pauses[i].claimed_s - clock->pauses[i].believed_s;
    return sum_s;
}
