// SPDX-License-Identifier: Apache-2.0
#include "spec/db/draft_db_age.h"

#include <string.h>

#include "base/min_max.h"
#include "spec/db/draft_db_private.h"

#define TIME_MAX_S (INT64_C(1) << 40)
#define SAVE_S 60      /* interval at which a clock that has only run is written */
#define DUE_PARTS 1024 /* part of the limit after which added documents cause a look for older ones */

/* --- the clock in the file ---------------------------------------------------------------------------------------- */

/* Clamps a number of a file that may be damaged, so that sums of a few hundred of them do not overflow. */
static int64_t column_s(sqlite3_stmt *query, int i) {
    const int64_t value = sqlite3_column_int64(query, i);

    return value > TIME_MAX_S ? TIME_MAX_S : MAX(-TIME_MAX_S, value);
}

static int64_t column_at_most(sqlite3_stmt *query, int i, int64_t max) {
    const int64_t value = column_s(query, i);

    return value < 0 ? 0 : MIN(max, value);
}

static int load_pauses(DraftDb *db, DraftClock *clock, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool row = false;
    int r;

    r = draft_db_sql_prepare(&db->file, &query, "SELECT document, claimed, seen, believed FROM pause ORDER BY document",
                             err);
    while (!r && clock->n_pauses < DRAFT_CLOCK_PAUSES_MAX && !(r = draft_db_sql_step(&db->file, query, &row, err)) &&
           row) {
        const int64_t claimed_s = column_at_most(query, 1, TIME_MAX_S);

        clock->pauses[clock->n_pauses++] = (DraftPause){ .document = sqlite3_column_int64(query, 0),
                                                         .claimed_s = claimed_s,
                                                         .seen_s = column_at_most(query, 2, claimed_s),
                                                         .believed_s = column_at_most(query, 3, claimed_s) };
    }
    return r;
}

/* Reads the clock; *@foundp false: the file has none. */
static int load_clock(DraftDb *db, DraftClock *clock, bool *foundp, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    int r;

    *clock = (DraftClock){ 0 };
    r = draft_db_sql_prepare(
        &db->file, &query,
        "SELECT boot, boot_s, wall, ran, behind, behind_seen, looked, has_looked, start, awake_s FROM clock LIMIT 1",
        err);
    if (!r)
        r = draft_db_sql_step(&db->file, query, foundp, err);
    if (r || !*foundp)
        return r;
    if (sqlite3_column_bytes(query, 0) == DRAFT_CLOCK_BOOT_BYTES && sqlite3_column_blob(query, 0))
        memcpy(clock->boot, sqlite3_column_blob(query, 0), DRAFT_CLOCK_BOOT_BYTES);
    clock->boot_s = column_at_most(query, 1, TIME_MAX_S);
    clock->wall_s = column_s(query, 2);
    clock->ran_s = column_s(query, 3);
    clock->behind_s = column_at_most(query, 4, TIME_MAX_S);
    clock->behind_seen_s = column_at_most(query, 5, TIME_MAX_S);
    clock->looked_s = column_s(query, 6);
    clock->has_looked = sqlite3_column_int(query, 7);
    clock->start = sqlite3_column_int64(query, 8);
    clock->awake_s = column_at_most(query, 9, TIME_MAX_S);
    return load_pauses(db, clock, err);
}

static int save_pauses(DraftDb *db, const DraftClock *clock, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    int r = draft_db_sql_run(&db->file, "DELETE FROM pause", err);

    if (!r)
        r = draft_db_sql_prepare(&db->file, &query, "INSERT INTO pause VALUES(?, ?, ?, ?)", err);
    for (size_t i = 0; !r && i < clock->n_pauses; i++) {
        sqlite3_reset(query);
        sqlite3_bind_int64(query, 1, clock->pauses[i].document);
        sqlite3_bind_int64(query, 2, clock->pauses[i].claimed_s);
        sqlite3_bind_int64(query, 3, clock->pauses[i].seen_s);
        sqlite3_bind_int64(query, 4, clock->pauses[i].believed_s);
        r = draft_db_sql_step(&db->file, query, NULL, err);
    }
    return r;
}

static int save_clock(DraftDb *db, const DraftClock *clock, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    int r = draft_db_sql_run(&db->file, "DELETE FROM clock", err);

    if (!r)
        r = draft_db_sql_prepare(&db->file, &query, "INSERT INTO clock VALUES(?1, ?2, ?10, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                                 err);
    if (r)
        return r;
    sqlite3_bind_blob(query, 1, clock->boot, DRAFT_CLOCK_BOOT_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(query, 2, clock->boot_s);
    sqlite3_bind_int64(query, 3, clock->wall_s);
    sqlite3_bind_int64(query, 4, clock->ran_s);
    sqlite3_bind_int64(query, 5, clock->behind_s);
    sqlite3_bind_int64(query, 6, clock->behind_seen_s);
    sqlite3_bind_int64(query, 7, clock->looked_s);
    sqlite3_bind_int(query, 8, clock->has_looked);
    sqlite3_bind_int64(query, 9, clock->start);
    sqlite3_bind_int64(query, 10, clock->awake_s);
    return draft_db_sql_step(&db->file, query, NULL, err);
}

/* --- a file that has none ----------------------------------------------------------------------------------------- */

/* Advances to a date of which nothing else is known. At least the time by which a look ages in any case has run; more,
 * or less than nothing, is another start. */
static void replay(DraftClock *clock, DraftClockReading *then, int64_t wall_s, int64_t document, uint64_t age_max_s) {
    const int64_t step_s = wall_s - (int64_t)then->wall_s;

    if (step_s >= 0 && (uint64_t)step_s <= age_max_s / DRAFT_CLOCK_STEPS)
        then->boot_s = then->awake_s += (uint64_t)step_s;
    else
        then->boot[0]++;
    then->wall_s = (uint64_t)wall_s;
    draft_clock_advance(clock, then, document, age_max_s);
}

/* Makes a clock for a file of form 1, whose documents have a date alone: the clock advances from each document to the
 * next and then to now, with the same care. A file without documents begins now. */
static int begin_clock(DraftDb *db, const DraftClockReading *now, DraftClock *clock, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL, *change = NULL;
    const uint64_t age_max_s = db->limits.age_max_s ? db->limits.age_max_s : TIME_MAX_S;
    const int64_t now_s = now->wall_s < TIME_MAX_S ? (int64_t)now->wall_s : TIME_MAX_S;
    DraftClockReading then = { 0 };
    int64_t last = 0;
    bool row = false;
    int r;

    r = draft_db_sql_prepare(&db->file, &query, "SELECT id, time FROM document ORDER BY id", err);
    if (!r)
        r = draft_db_sql_prepare(&db->file, &change, "UPDATE document SET ran = ? WHERE id = ?", err);
    while (!r && !(r = draft_db_sql_step(&db->file, query, &row, err)) && row) {
        const int64_t id = sqlite3_column_int64(query, 0), time_s = column_at_most(query, 1, TIME_MAX_S);

        if (!last) {
            then.wall_s = (uint64_t)time_s;
            draft_clock_init(clock, &then, time_s);
        } else {
            replay(clock, &then, time_s, last, age_max_s);
        }
        last = id;
        sqlite3_reset(change);
        sqlite3_bind_int64(change, 1, clock->ran_s);
        sqlite3_bind_int64(change, 2, id);
        r = draft_db_sql_step(&db->file, change, NULL, err);
    }
    if (r)
        return r;
    if (!last)
        draft_clock_init(clock, now, now_s);
    else
        replay(clock, &then, now_s, last, age_max_s);
    /* Documents after this belong to the machine's start of now. */
    memcpy(clock->boot, now->boot, sizeof(clock->boot));
    clock->boot_s = now->boot_s < TIME_MAX_S ? (int64_t)now->boot_s : TIME_MAX_S;
    clock->awake_s = now->awake_s < TIME_MAX_S ? (int64_t)now->awake_s : TIME_MAX_S;
    return 0;
}

/* --- now ---------------------------------------------------------------------------------------------------------- */

/* Whether the clock has only run: the next reading finds that time again. */
static bool has_only_run(const DraftClock *clock, DraftClock before) {
    before.wall_s = clock->wall_s;
    before.boot_s = clock->boot_s;
    before.awake_s = clock->awake_s;
    before.ran_s = clock->ran_s;
    return !memcmp(&before, clock, sizeof(before));
}

int draft_db_age_advance(DraftDb *db, const DraftClockReading *now, DraftDbMoment *momentp, ErrText *err) {
    DraftClock clock, before;
    int64_t first = 0, last = 0;
    bool found = false;
    int r;

    r = load_clock(db, &clock, &found, err);
    if (!r && !found)
        r = begin_clock(db, now, &clock, err);
    if (!r)
        r = draft_db_sql_number(&db->file, "SELECT coalesce(max(id), 0) FROM document", &last, err);
    if (!r)
        r = draft_db_sql_number(&db->file, "SELECT coalesce(min(id), 0) FROM document", &first, err);
    if (r)
        return r;
    before = clock;
    draft_clock_prune(&clock, first);
    draft_clock_advance(&clock, now, last, db->limits.age_max_s);
    *momentp = (DraftDbMoment){ .date_s = draft_clock_date_s(&clock, now),
                                .ran_s = clock.ran_s,
                                .doubted_s = draft_clock_doubted_s(&clock) };
    if (found && clock.ran_s - before.ran_s < SAVE_S && has_only_run(&clock, before))
        return 0;
    if (clock.n_pauses != before.n_pauses ||
        memcmp(clock.pauses, before.pauses, clock.n_pauses * sizeof(*clock.pauses)))
        r = save_pauses(db, &clock, err);
    return r ? r : save_clock(db, &clock, err);
}

bool draft_db_age_is_due(const DraftDb *db, const DraftDbMoment *moment) {
    const uint64_t part_s = db->limits.age_max_s / DUE_PARTS;

    return !db->has_trimmed || moment->ran_s < db->trimmed_s || (uint64_t)(moment->ran_s - db->trimmed_s) >= part_s;
}

int draft_db_age_trim(DraftDb *db, const DraftDbMoment *moment, ErrText *err) {
    /* The sum of all pauses comes first: with it the index finds what may be too old. */
    static const char statement[] =
        "DELETE FROM document WHERE ran < ?1 + (SELECT coalesce(sum(believed), 0) FROM pause) AND"
        " ran < ?1 + (SELECT coalesce(sum(believed), 0) FROM pause WHERE pause.document >= document.id) AND"
        " uid NOT IN (SELECT uid FROM app WHERE frozen)";
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    int r;

    if (!db->limits.age_max_s || db->limits.age_max_s > TIME_MAX_S)
        return 0;
    r = draft_db_sql_prepare(&db->file, &query, statement, err);
    if (r)
        return r;
    sqlite3_bind_int64(query, 1, moment->ran_s - (int64_t)db->limits.age_max_s);
    r = draft_db_sql_step(&db->file, query, NULL, err);
    db->has_trimmed = !r;
    db->trimmed_s = moment->ran_s;
    return r;
}
