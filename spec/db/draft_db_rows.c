// SPDX-License-Identifier: Apache-2.0
#include "spec/db/draft_db_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/min_max.h"
#include "spec/db/draft_db_blob.h"
#include "spec/db/draft_db_private.h"

static void owner_put(uint8_t *at, uint64_t value, unsigned int n_bytes) {
    for (unsigned int i = 0; i < n_bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* A row that damage has put under another user is none of that user's: the checksum covers the owner. */
void draft_db_rows_owner(const DraftDbDocument *document, uint8_t owner[DRAFT_DB_OWNER_BYTES]) {
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
    draft_db_rows_owner(&row->document, owner);
    r = draft_db_blob_decode(blob, blob_bytes, owner, sizeof(owner), &row->tokens, &n_tokens);
    if (r)
        return MIN(r, 0);
    row->document.tokens = row->tokens;
    row->damaged = n_tokens != (size_t)n_said;
    return 0;
}

int draft_db_rows_next(DraftDb *db, uint32_t uid, const uint8_t *tokenizer, bool newest_first, int64_t id,
                       DraftDbRow *row, bool *foundp, ErrText *err) {
#define ROW_COLUMNS "SELECT id, time, n_prompt, n_tokens, blob, tokenizer FROM document"
    static const char *const queries[2][2] = {
        { ROW_COLUMNS " WHERE uid = ?1 AND id > ?2 ORDER BY id LIMIT 1",
          ROW_COLUMNS " WHERE uid = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1" },
        { ROW_COLUMNS " WHERE uid = ?1 AND tokenizer = ?3 AND id > ?2 ORDER BY id LIMIT 1",
          ROW_COLUMNS " WHERE uid = ?1 AND tokenizer = ?3 AND id < ?2 ORDER BY id DESC LIMIT 1" },
    };
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    int r;

    r = draft_db_sql_prepare(&db->file, &query, queries[tokenizer != NULL][newest_first], err);
    if (r)
        return r;
    sqlite3_bind_int64(query, 1, uid);
    sqlite3_bind_int64(query, 2, id);
    if (tokenizer)
        sqlite3_bind_blob(query, 3, tokenizer, DRAFT_DB_TOKENIZER_BYTES, SQLITE_STATIC);
    r = draft_db_sql_step(&db->file, query, foundp, err);
    if (r || !*foundp)
        return r;
    r = row_read(db, query, uid, tokenizer, row);
    return r ? err_set(err, r, "%s: out of memory for a document", db->file.path) : 0;
}

int draft_db_rows_drop(DraftDb *db, int64_t id, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    int r = draft_db_sql_prepare(&db->file, &query, "DELETE FROM document WHERE id = ?", err);

    if (r)
        return r;
    sqlite3_bind_int64(query, 1, id);
    return draft_db_sql_step(&db->file, query, NULL, err);
}

/* --- a row is added ----------------------------------------------------------------------------------------------- */

int draft_db_rows_may_add(DraftDb *db, uint32_t uid, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool frozen = false;
    int r;

    r = draft_db_sql_prepare(&db->file, &query, "SELECT 1 FROM app WHERE uid = ? AND frozen", err);
    if (r)
        return r;
    sqlite3_bind_int64(query, 1, uid);
    r = draft_db_sql_step(&db->file, query, &frozen, err);
    if (!r && frozen)
        r = err_set(err, DRAFT_DB_E_FROZEN, "the draft database of uid %" PRIu32 " is frozen", uid);
    return r;
}

/* Adds a row; ran_s: the moment from which its age counts (DraftDbMoment.ran_s). */
int draft_db_rows_insert(DraftDb *db, const DraftDbDocument *document, int64_t ran_s, int64_t *idp, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    _cleanup_(freep) uint8_t *blob = NULL;
    uint8_t owner[DRAFT_DB_OWNER_BYTES];
    size_t blob_bytes;
    int r;

    if (document->n_prompt > document->n_tokens || document->time_s > INT64_MAX)
        return err_set(err, -EINVAL, "a document of %zu tokens with a prompt of %zu", document->n_tokens,
                       document->n_prompt);
    draft_db_rows_owner(document, owner);
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
    r = draft_db_sql_prepare(&db->file, &query,
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
    r = draft_db_sql_step(&db->file, query, NULL, err);
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

    r = draft_db_sql_prepare(&db->file, &query, "SELECT sum(bytes), sum(documents) FROM app", err);
    if (!r)
        r = draft_db_sql_step(&db->file, query, &row, err);
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

    r = draft_db_sql_prepare(&db->file, &query, queries[!strcmp(column, "documents")], err);
    if (r)
        return r;
    if (adder)
        sqlite3_bind_int64(query, 1, *adder);
    r = draft_db_sql_step(&db->file, query, &row, err);
    if (!r)
        *idp = sqlite3_column_int64(query, 0);
    return r;
}

/**
 * draft_db_rows_trim() - delete what is too old, then what is beyond the limits, within a transaction
 * @adder:     who has added to it: ages are then looked at once in a while; NULL: nobody
 * @first_new: the first document that was added in this transaction; INT64_MAX: none
 *
 * The user who has the most gives first: one app's many documents take nothing from another's few. A new document never
 * goes: if it would have to, there is no room for it, and the transaction must be undone. Frozen users' documents stay,
 * and count.
 * Return: 0, DRAFT_DB_E_FULL, or as draft_db_sql_step().
 */
int draft_db_rows_trim(DraftDb *db, const DraftDbMoment *moment, const uint32_t *adder, int64_t first_new,
                       ErrText *err) {
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
        r = draft_db_rows_drop(db, id, err);
    }
    return r ? r : draft_db_sql_run(&db->file, "DELETE FROM app WHERE NOT documents AND NOT frozen", err);
}
