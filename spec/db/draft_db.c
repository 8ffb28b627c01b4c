// SPDX-License-Identifier: Apache-2.0
#include "spec/db/draft_db.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "spec/db/draft_db_age.h"
#include "spec/db/draft_db_private.h"
#include "spec/db/draft_db_rows.h"

static int db_read(DraftDb *db, uint32_t uid, const uint8_t *tokenizer, uint64_t n_tokens_max, DraftDbVisit *visit,
                   void *arg, DraftDbRead *read, ErrText *err) {
    int64_t id = INT64_MAX;

    for (;;) {
        _cleanup_(draft_db_row_deinit) DraftDbRow row = { 0 };
        bool found = false;
        int r;

        r = draft_db_rows_next(db, uid, tokenizer, true, id, &row, &found, err);
        if (r || !found)
            return r;
        id = row.id;
        if (row.damaged) {
            read->n_dropped++;
            r = draft_db_rows_drop(db, id, err);
            if (r)
                return r;
            continue;
        }
        if (row.document.n_tokens > n_tokens_max - read->n_tokens)
            return 0;
        read->n_tokens += row.document.n_tokens;
        read->n_documents++;
        if (visit(arg, &row.document))
            return 0;
    }
}

/**
 * draft_db_each() - read a user's documents of one tokenizer, newest first
 * @n_tokens_max: tokens in all; the reading ends before the document that would exceed them
 * @readp:        out, whatever is returned: what was given to @visit, and how many damaged documents were deleted
 *
 * Each document is a query of its own: no transaction is open while @visit works, and only the user's own rows are
 * read, so that the time tells of no other user. Memory: one document.
 * Return: 0, DRAFT_DB_E_SET_ASIDE, DRAFT_DB_E_FULL, DRAFT_DB_E_BUSY, or -errno.
 */
int draft_db_each(DraftDb *db, uint32_t uid, const uint8_t *tokenizer, uint64_t n_tokens_max, DraftDbVisit *visit,
                  void *arg, DraftDbRead *readp, ErrText *err) {
    int r;

    *readp = (DraftDbRead){ 0 };
    r = draft_db_file_ready(&db->file, err);
    if (!r)
        r = db_read(db, uid, tokenizer, n_tokens_max, visit, arg, readp, err);
    return draft_db_file_judge(&db->file, r, err);
}

/* --- a document is added ------------------------------------------------------------------------------------------ */

static int db_add(DraftDb *db, DraftDbDocument document, const DraftClockReading *now, ErrText *err) {
    _cleanup_(draft_db_sql_undo) DraftDbFile *open = NULL;
    DraftDbMoment moment;
    int64_t id;
    int r;

    r = draft_db_file_begin(&open, &db->file, err);
    if (!r)
        r = draft_db_rows_may_add(db, document.uid, err);
    if (!r)
        r = draft_db_age_advance(db, now, &moment, err);
    if (!r) {
        document.time_s = (uint64_t)moment.date_s;
        r = draft_db_rows_insert(db, &document, moment.ran_s, &id, err);
    }
    if (!r)
        r = draft_db_rows_trim(db, &moment, &document.uid, id, err);
    return r ? r : draft_db_sql_commit(&db->file, err);
}

/**
 * draft_db_add() - store a document; others may be evicted for it
 * @document: its time is ignored, and becomes that of @now
 *
 * Everything is one transaction, which is on the disk when this returns 0. With any other code nothing is stored, and
 * the database may be used further.
 * Return: 0, DRAFT_DB_E_SET_ASIDE, DRAFT_DB_E_FULL, DRAFT_DB_E_TOO_LARGE, DRAFT_DB_E_FROZEN, DRAFT_DB_E_BUSY or -errno.
 */
int draft_db_add(DraftDb *db, const DraftDbDocument *document, const DraftClockReading *now, ErrText *err) {
    int r = draft_db_file_ready(&db->file, err);

    if (!r)
        r = db_add(db, *document, now, err);
    return draft_db_file_judge(&db->file, r, err);
}

static int db_expire(DraftDb *db, const DraftClockReading *now, DraftDbMoment *moment, ErrText *err) {
    _cleanup_(draft_db_sql_undo) DraftDbFile *open = NULL;
    int r;

    r = draft_db_file_begin(&open, &db->file, err);
    if (!r)
        r = draft_db_age_advance(db, now, moment, err);
    if (!r)
        r = draft_db_rows_trim(db, moment, NULL, INT64_MAX, err);
    return r ? r : draft_db_sql_commit(&db->file, err);
}

/* Deletes what is older than the limit, then what is beyond the other limits. Copies of damaged databases are judged by
 * the date, less the pauses that are not believed yet. */
int draft_db_expire(DraftDb *db, const DraftClockReading *now, ErrText *err) {
    DraftDbMoment moment = { 0 };
    int r = draft_db_file_ready(&db->file, err);

    if (!r)
        r = db_expire(db, now, &moment, err);
    if (!r && db->limits.age_max_s)
        r = draft_db_file_expire_set_aside(&db->file, moment.date_s, moment.date_s - moment.doubted_s,
                                           db->limits.age_max_s, err);
    return draft_db_file_judge(&db->file, r, err);
}

/* --- who has what ------------------------------------------------------------------------------------------------- */

static int db_stats(DraftDb *db, const uint32_t *uid, DraftDbVisitStats *visit, void *arg, ErrText *err) {
    static const char *const columns =
        "SELECT uid, frozen, documents, tokens, bytes,"
        " (SELECT min(time) FROM document WHERE document.uid = app.uid),"
        " (SELECT max(time) FROM document WHERE document.uid = app.uid) FROM app WHERE ?1 IS NULL OR uid = ?1"
        " ORDER BY uid";
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool row = false;
    int r;

    r = draft_db_sql_prepare(&db->file, &query, columns, err);
    if (r)
        return r;
    if (uid)
        sqlite3_bind_int64(query, 1, *uid);
    while (!(r = draft_db_sql_step(&db->file, query, &row, err)) && row) {
        DraftDbStats stats = { .uid = (uint32_t)sqlite3_column_int64(query, 0),
                               .frozen = sqlite3_column_int(query, 1),
                               .n_documents = (uint64_t)sqlite3_column_int64(query, 2),
                               .n_tokens = (uint64_t)sqlite3_column_int64(query, 3),
                               .bytes = (uint64_t)sqlite3_column_int64(query, 4),
                               .oldest_s = (uint64_t)sqlite3_column_int64(query, 5),
                               .newest_s = (uint64_t)sqlite3_column_int64(query, 6) };

        if (visit(arg, &stats))
            return 0;
    }
    return r;
}

static int stats_take(void *arg, const DraftDbStats *stats) {
    *(DraftDbStats *)arg = *stats;
    return 0;
}

/* Counts one user's documents; all 0 for a user who has none. */
int draft_db_stats(DraftDb *db, uint32_t uid, DraftDbStats *statsp, ErrText *err) {
    DraftDbStats stats = { .uid = uid };
    int r;

    r = draft_db_file_ready(&db->file, err);
    if (!r)
        r = db_stats(db, &uid, stats_take, &stats, err);
    r = draft_db_file_judge(&db->file, r, err);
    if (!r)
        *statsp = stats;
    return r;
}

/* Counts every user's documents, by uid, for administrators. The callback must not use the database. */
int draft_db_stats_each(DraftDb *db, DraftDbVisitStats *visit, void *arg, ErrText *err) {
    int r = draft_db_file_ready(&db->file, err);

    if (!r)
        r = db_stats(db, NULL, visit, arg, err);
    return draft_db_file_judge(&db->file, r, err);
}

static int db_recent(DraftDb *db, const uint8_t *tokenizer, uint32_t *uids, size_t max, size_t *np, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool row = false;
    int r = draft_db_sql_prepare(
        &db->file, &query, "SELECT uid FROM document WHERE tokenizer = ? GROUP BY uid ORDER BY max(id) DESC LIMIT ?",
        err);

    *np = 0;
    if (r)
        return r;
    sqlite3_bind_blob(query, 1, tokenizer, DRAFT_DB_TOKENIZER_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(query, 2, (int64_t)max);
    while (!(r = draft_db_sql_step(&db->file, query, &row, err)) && row && *np < max)
        uids[(*np)++] = (uint32_t)sqlite3_column_int64(query, 0);
    return r;
}

int draft_db_recent(DraftDb *db, const uint8_t *tokenizer, uint32_t *uids, size_t max, size_t *np, ErrText *err) {
    int r = draft_db_file_ready(&db->file, err);

    if (!r)
        r = db_recent(db, tokenizer, uids, max, np, err);
    return draft_db_file_judge(&db->file, r, err);
}

/* --- freeze ------------------------------------------------------------------------------------------------------- */

/* Freezes or thaws a user. Frozen: nothing of the user's is added or evicted, whatever its age; forgetting goes on. */
int draft_db_freeze(DraftDb *db, uint32_t uid, bool frozen, ErrText *err) {
    char statement[160];
    int r;

    /* A single statement is a transaction of its own. */
    snprintf(statement, sizeof(statement),
             "INSERT INTO app(uid, frozen) VALUES(%" PRIu32 ", %d) ON CONFLICT(uid) DO UPDATE SET frozen = %d", uid,
             frozen, frozen);
    r = draft_db_file_ready(&db->file, err);
    if (!r)
        r = draft_db_sql_run(&db->file, statement, err);
    return draft_db_file_judge(&db->file, r, err);
}

/* --- opened ------------------------------------------------------------------------------------------------------- */

static int db_new(DraftDb **dbp, const char *path, ErrText *err) {
    _cleanup_(draft_db_freep) DraftDb *db = calloc(1, sizeof(*db));
    int r;

    if (!db)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    r = draft_db_file_init(&db->file, path, err);
    if (!r || r == DRAFT_DB_E_SET_ASIDE || r == DRAFT_DB_E_FULL)
        *dbp = steal(&db);
    return r;
}

/**
 * draft_db_open() - open the draft database at path for this process alone, or make it
 * @path: in a folder of its own, which is made with mode 0700 (the folders above must exist)
 *
 * Every page is checked, and what is beyond the limits is deleted. The call waits for nobody.
 * Return: 0; DRAFT_DB_E_SET_ASIDE: open, and empty, with a text for the log; DRAFT_DB_E_FULL: open, with a text for the
 * log, but no file is there, and every call tries to make it; DRAFT_DB_E_BUSY: another process has it; or -errno. An
 * existing database is read and forgotten from on a full disk, too.
 */
int draft_db_open(DraftDb **dbp, const char *path, const DraftDbLimits *limits, const DraftClockReading *now,
                  ErrText *err) {
    _cleanup_(draft_db_freep) DraftDb *db = NULL;
    ErrText expired = { 0 };
    int r, r_expire;

    r = db_new(&db, path, err);
    if (!db)
        return r;
    db->limits = *limits;
    /* On a full disk nothing can be deleted, but everything can be read. */
    r_expire = draft_db_expire(db, now, &expired);
    if (r_expire && r_expire != DRAFT_DB_E_FULL) {
        err_set(err, r_expire, "%s", expired.text);
        r = r_expire;
    }
    if (!r || r == DRAFT_DB_E_SET_ASIDE || r == DRAFT_DB_E_FULL)
        *dbp = steal(&db);
    return r;
}

DraftDb *draft_db_free(DraftDb *db) {
    if (db)
        draft_db_file_deinit(&db->file);
    free(db);
    return NULL;
}
