// SPDX-License-Identifier: Apache-2.0
#include "spec/db/draft_db.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "spec/db/draft_db_blob.h"
#include "spec/db/draft_db_private.h"

static void owner_put(uint8_t *at, uint64_t value, unsigned int n_bytes) {
    for (unsigned int i = 0; i < n_bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* A row that damage has put under another user is none of that user's: the checksum covers the owner. */
void draft_db_owner(const DraftDbDocument *document, uint8_t owner[DRAFT_DB_OWNER_BYTES]) {
    owner_put(owner, document->uid, 4);
    owner_put(owner + 4, document->n_prompt, 4);
    owner_put(owner + 8, document->time_s, 8);
    memcpy(owner + 16, document->tokenizer, DRAFT_DB_TOKENIZER_BYTES);
}

/* Returns the bytes of the file that a document takes: a share of a page, or whole pages where SQLite chains them. */
static uint64_t row_bytes(size_t blob_bytes) {
    uint64_t bytes = blob_bytes + DRAFT_DB_ROW_BYTES;

    return bytes <= 4000 ? bytes : (bytes + 4095) / 4096 * 4096;
}

/* --- a row is read ------------------------------------------------------------------------------------------------ */

/* Reads a row. Nothing of the row is believed before it is checked: SQLite does not notice every damaged page. */
static int row_read(DraftDb *db, sqlite3_stmt *query, uint32_t uid, const uint8_t *tokenizer, DraftDbRow *row) {
    const void *blob = sqlite3_column_blob(query, 4), *hash = sqlite3_column_blob(query, 5);
    size_t blob_bytes = (size_t)sqlite3_column_bytes(query, 4), n_tokens;
    int64_t time_s = sqlite3_column_int64(query, 1), n_prompt = sqlite3_column_int64(query, 2);
    int64_t n_said = sqlite3_column_int64(query, 3);
    uint8_t owner[DRAFT_DB_OWNER_BYTES];
    int r;

    row->id = sqlite3_column_int64(query, 0);
    row->damaged = true;
    if (!blob || !hash || sqlite3_column_bytes(query, 5) != DRAFT_DB_TOKENIZER_BYTES || time_s < 0 || n_prompt < 0 ||
        n_prompt > n_said || n_said > DRAFT_DB_TOKENS_MAX)
        return 0;
    memcpy(row->tokenizer, tokenizer ? tokenizer : hash, sizeof(row->tokenizer));
    row->document = (DraftDbDocument){ .uid = uid,
                                       .tokenizer = row->tokenizer,
                                       .n_prompt = (size_t)n_prompt,
                                       .n_tokens = (size_t)n_said,
                                       .time_s = (uint64_t)time_s };
    draft_db_owner(&row->document, owner);
    r = draft_db_blob_decode(blob, blob_bytes, owner, sizeof(owner), &row->tokens, &n_tokens);
    if (r)
        return r < 0 ? r : 0;
    row->document.tokens = row->tokens;
    row->damaged = n_tokens != (size_t)n_said;
    return 0;
}

int draft_db_next(DraftDb *db, uint32_t uid, const uint8_t *tokenizer, bool newest_first, int64_t id, DraftDbRow *row,
                  bool *foundp, ErrText *err) {
#define ROW_COLUMNS "SELECT id, time, n_prompt, n_tokens, blob, tokenizer FROM document"
    static const char *const queries[2][2] = {
        { ROW_COLUMNS " WHERE uid = ?1 AND id > ?2 ORDER BY id LIMIT 1",
          ROW_COLUMNS " WHERE uid = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1" },
        { ROW_COLUMNS " WHERE uid = ?1 AND tokenizer = ?3 AND id > ?2 ORDER BY id LIMIT 1",
          ROW_COLUMNS " WHERE uid = ?1 AND tokenizer = ?3 AND id < ?2 ORDER BY id DESC LIMIT 1" },
    };
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    int r;

    r = draft_db_file_prepare(&db->file, &query, queries[tokenizer != NULL][newest_first], err);
    if (r)
        return r;
    sqlite3_bind_int64(query, 1, uid);
    sqlite3_bind_int64(query, 2, id);
    if (tokenizer)
        sqlite3_bind_blob(query, 3, tokenizer, DRAFT_DB_TOKENIZER_BYTES, SQLITE_STATIC);
    r = draft_db_file_step(&db->file, query, foundp, err);
    if (r || !*foundp)
        return r;
    r = row_read(db, query, uid, tokenizer, row);
    return r ? err_set(err, r, "%s: out of memory for a document", db->file.path) : 0;
}

static int row_drop(DraftDb *db, int64_t id, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    int r = draft_db_file_prepare(&db->file, &query, "DELETE FROM document WHERE id = ?", err);

    if (r)
        return r;
    sqlite3_bind_int64(query, 1, id);
    return draft_db_file_step(&db->file, query, NULL, err);
}

static int db_read(DraftDb *db, uint32_t uid, const uint8_t *tokenizer, uint64_t n_tokens_max, DraftDbVisit *visit,
                   void *arg, DraftDbRead *read, ErrText *err) {
    int64_t id = INT64_MAX;

    for (;;) {
        _cleanup_(draft_db_row_deinit) DraftDbRow row = { 0 };
        bool found = false;
        int r;

        r = draft_db_next(db, uid, tokenizer, true, id, &row, &found, err);
        if (r || !found)
            return r;
        id = row.id;
        if (row.damaged) {
            read->n_dropped++;
            r = row_drop(db, id, err);
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

/* --- a row is added ----------------------------------------------------------------------------------------------- */

int draft_db_may_add(DraftDb *db, uint32_t uid, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool frozen = false;
    int r;

    r = draft_db_file_prepare(&db->file, &query, "SELECT 1 FROM app WHERE uid = ? AND frozen", err);
    if (r)
        return r;
    sqlite3_bind_int64(query, 1, uid);
    r = draft_db_file_step(&db->file, query, &frozen, err);
    if (!r && frozen)
        r = err_set(err, DRAFT_DB_E_FROZEN, "the draft database of uid %" PRIu32 " is frozen", uid);
    return r;
}

/* Adds a row; ran_s: the moment from which its age counts (DraftDbMoment.ran_s). */
int draft_db_insert(DraftDb *db, const DraftDbDocument *document, int64_t ran_s, int64_t *idp, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    _cleanup_(freep) uint8_t *blob = NULL;
    uint8_t owner[DRAFT_DB_OWNER_BYTES];
    size_t blob_bytes;
    int r;

    if (document->n_prompt > document->n_tokens || document->time_s > INT64_MAX)
        return err_set(err, -EINVAL, "a document of %zu tokens with a prompt of %zu", document->n_tokens,
                       document->n_prompt);
    draft_db_owner(document, owner);
    r = draft_db_blob_encode(document->tokens, document->n_tokens, owner, sizeof(owner), &blob, &blob_bytes);
    if (r == DRAFT_DB_BLOB_E_TOO_LONG)
        return err_set(err, DRAFT_DB_E_TOO_LARGE, "a document of %zu tokens: the draft database takes %u",
                       document->n_tokens, DRAFT_DB_TOKENS_MAX);
    if (r)
        return err_set(err, err_fold(r), "out of memory for a document");
    if (db->limits.bytes_max && row_bytes(blob_bytes) > db->limits.bytes_max)
        return err_set(err, DRAFT_DB_E_TOO_LARGE,
                       "a document of %" PRIu64 " bytes: the draft database may have %" PRIu64, row_bytes(blob_bytes),
                       db->limits.bytes_max);
    r = draft_db_file_prepare(&db->file, &query,
                              "INSERT INTO document(uid, tokenizer, time, n_tokens, n_prompt, bytes, blob, ran)"
                              " VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                              err);
    if (r)
        return r;
    sqlite3_bind_int64(query, 1, document->uid);
    sqlite3_bind_blob(query, 2, document->tokenizer, DRAFT_DB_TOKENIZER_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(query, 3, (int64_t)document->time_s);
    sqlite3_bind_int64(query, 4, (int64_t)document->n_tokens);
    sqlite3_bind_int64(query, 5, (int64_t)document->n_prompt);
    sqlite3_bind_int64(query, 6, (int64_t)row_bytes(blob_bytes));
    sqlite3_bind_blob(query, 7, blob, (int)blob_bytes, SQLITE_STATIC);
    sqlite3_bind_int64(query, 8, ran_s);
    r = draft_db_file_step(&db->file, query, NULL, err);
    if (!r)
        *idp = sqlite3_last_insert_rowid(db->file.sql);
    return r;
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

/* Returns the column of app by which users are compared for the limit that is passed; NULL: no limit is passed. */
static int limit_passed(DraftDb *db, const char **columnp, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool row = false;
    int r;

    r = draft_db_file_prepare(&db->file, &query, "SELECT sum(bytes), sum(documents) FROM app", err);
    if (!r)
        r = draft_db_file_step(&db->file, query, &row, err);
    if (r)
        return r;
    *columnp = NULL;
    if (db->limits.bytes_max && (uint64_t)sqlite3_column_int64(query, 0) > db->limits.bytes_max)
        *columnp = "bytes";
    else if (db->limits.documents_max && (uint64_t)sqlite3_column_int64(query, 1) > db->limits.documents_max)
        *columnp = "documents";
    return 0;
}

/* Finds the oldest document of the user who has the most; among users who have the same, of the one who adds. 0:
 * none. */
static int limit_victim(DraftDb *db, const char *column, const uint32_t *adder, int64_t *idp, ErrText *err) {
    static const char *const queries[] = {
#define VICTIM_BY(column)                                                                                              \
    "SELECT min(id) FROM document WHERE uid = (SELECT uid FROM app WHERE NOT frozen AND documents > 0"                 \
    " ORDER BY " column " DESC, uid = ?1 DESC, uid LIMIT 1)"
        VICTIM_BY("bytes"),
        VICTIM_BY("documents"),
    };
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool row = false;
    int r;

    r = draft_db_file_prepare(&db->file, &query, queries[!strcmp(column, "documents")], err);
    if (r)
        return r;
    if (adder)
        sqlite3_bind_int64(query, 1, *adder);
    r = draft_db_file_step(&db->file, query, &row, err);
    if (!r)
        *idp = sqlite3_column_int64(query, 0);
    return r;
}

/**
 * draft_db_trim() - delete what is too old, then what is beyond the limits, within a transaction
 * @adder:     who has added to it: ages are then looked at once in a while; NULL: nobody
 * @first_new: the first document that was added in this transaction; INT64_MAX: none
 *
 * The user who has the most gives first: one app's many documents take nothing from another's few. A new document never
 * goes: if it would have to, there is no room for it, and the transaction must be undone. Frozen users' documents stay,
 * and count.
 * Return: 0, DRAFT_DB_E_FULL, or as draft_db_file_step().
 */
int draft_db_trim(DraftDb *db, const DraftDbMoment *moment, const uint32_t *adder, int64_t first_new, ErrText *err) {
    int r = adder && !draft_db_age_is_due(db, moment) ? 0 : draft_db_age_trim(db, moment, err);

    while (!r) {
        const char *column;
        int64_t id = 0;

        r = limit_passed(db, &column, err);
        if (!r && column)
            r = limit_victim(db, column, adder, &id, err);
        if (r || !column || (!id && !adder))
            break;
        if (!id || id >= first_new)
            return err_set(err, DRAFT_DB_E_FULL,
                           "the draft database has no room for more of uid %" PRIu32 " within its limit of %s",
                           adder ? *adder : 0, column);
        r = row_drop(db, id, err);
    }
    return r ? r : draft_db_file_run(&db->file, "DELETE FROM app WHERE NOT documents AND NOT frozen", err);
}

static int db_add(DraftDb *db, DraftDbDocument document, const DraftClockReading *now, ErrText *err) {
    _cleanup_(draft_db_file_undo) DraftDbFile *open = NULL;
    DraftDbMoment moment;
    int64_t id;
    int r;

    r = draft_db_file_begin(&open, &db->file, err);
    if (!r)
        r = draft_db_may_add(db, document.uid, err);
    if (!r)
        r = draft_db_age_advance(db, now, &moment, err);
    if (!r) {
        document.time_s = (uint64_t)moment.date_s;
        r = draft_db_insert(db, &document, moment.ran_s, &id, err);
    }
    if (!r)
        r = draft_db_trim(db, &moment, &document.uid, id, err);
    return r ? r : draft_db_file_commit(&db->file, err);
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
    _cleanup_(draft_db_file_undo) DraftDbFile *open = NULL;
    int r;

    r = draft_db_file_begin(&open, &db->file, err);
    if (!r)
        r = draft_db_age_advance(db, now, moment, err);
    if (!r)
        r = draft_db_trim(db, moment, NULL, INT64_MAX, err);
    return r ? r : draft_db_file_commit(&db->file, err);
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

    r = draft_db_file_prepare(&db->file, &query, columns, err);
    if (r)
        return r;
    if (uid)
        sqlite3_bind_int64(query, 1, *uid);
    while (!(r = draft_db_file_step(&db->file, query, &row, err)) && row) {
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
    int r = draft_db_file_prepare(
        &db->file, &query, "SELECT uid FROM document WHERE tokenizer = ? GROUP BY uid ORDER BY max(id) DESC LIMIT ?",
        err);

    *np = 0;
    if (r)
        return r;
    sqlite3_bind_blob(query, 1, tokenizer, DRAFT_DB_TOKENIZER_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(query, 2, (int64_t)max);
    while (!(r = draft_db_file_step(&db->file, query, &row, err)) && row && *np < max)
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
        r = draft_db_file_run(&db->file, statement, err);
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
    ErrText expired = { "" };
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
