// SPDX-License-Identifier: Apache-2.0
#include "spec/db/draft_db_sql.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "spec/db/draft_db_types.h"

static bool is_space(int number) {
    return number == ENOSPC || number == EDQUOT || number == EFBIG;
}

/* Returns the errno behind a result. What SQLite did after the error, to undo a transaction, may have changed the
 * connection's own errno; the files have theirs. An errno that tells of a lack of room goes first. */
static int sql_errno(const DraftDbFile *file) {
    sqlite3_file *log = NULL;
    int numbers[3] = { 0 }, number = 0;

    if (!file->sql)
        return 0;
    numbers[0] = sqlite3_system_errno(file->sql);
    (void)sqlite3_file_control(file->sql, "main", SQLITE_FCNTL_LAST_ERRNO, &numbers[1]);
    (void)sqlite3_file_control(file->sql, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods)
        (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &numbers[2]);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (!number || (is_space(numbers[i]) && !is_space(number)))
            number = numbers[i];
    return number;
}

/* Returns the result of a call as a code of the module. SQLite's own messages stay out: they quote their input. */
static int sql_fault(const DraftDbFile *file, int code, ErrText *err) {
    int number = sql_errno(file);

    if (code == SQLITE_IOERR_NOMEM)
        code = SQLITE_NOMEM;
    if (code == SQLITE_IOERR_CORRUPTFS || code == SQLITE_IOERR_SHORT_READ ||
        ((code & 0xff) == SQLITE_READONLY && !access(file->path, W_OK)))
        code = SQLITE_CORRUPT; /* cut short by somebody; or read-only by what its first page says, not by permissions */
    if (((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN) && is_space(number))
        code = SQLITE_FULL;
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_SCHEMA:
    case SQLITE_ERROR:    /* a table has changed: our statements are right */
    case SQLITE_MISMATCH: /* an integer column holds no integer */
    case SQLITE_CONSTRAINT:
        return err_set(err, DRAFT_DB_E_DAMAGED, "%s: the draft database is damaged (%s)", file->path,
                       sqlite3_errstr(code));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(err, DRAFT_DB_E_BUSY, "%s: another process uses this draft database", file->path);
    case SQLITE_NOMEM:
        return err_set(err, -ENOMEM, "%s: out of memory", file->path);
    case SQLITE_FULL:
        return err_set(err, DRAFT_DB_E_FULL, "%s: no room for the draft database: %s", file->path,
                       strerror(is_space(number) ? number : ENOSPC));
    default:
        return err_set(err, number ? -number : -EIO, "%s: cannot use the draft database: %s", file->path,
                       number ? strerror(number) : sqlite3_errstr(code));
    }
}

int draft_db_sql_result(const DraftDbFile *file, int code, ErrText *err) {
    return code ? sql_fault(file, code, err) : 0;
}

int draft_db_sql_prepare(DraftDbFile *file, sqlite3_stmt **statementp, const char *statement, ErrText *err) {
    return draft_db_sql_result(file, sqlite3_prepare_v2(file->sql, statement, -1, statementp, NULL), err);
}

int draft_db_sql_step(DraftDbFile *file, sqlite3_stmt *statement, bool *rowp, ErrText *err) {
    int code = sqlite3_step(statement);

    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return sql_fault(file, sqlite3_extended_errcode(file->sql), err);
    if (rowp)
        *rowp = code == SQLITE_ROW;
    return 0;
}

int draft_db_sql_run(DraftDbFile *file, const char *statement, ErrText *err) {
    int code = sqlite3_exec(file->sql, statement, NULL, NULL, NULL);

    return code ? sql_fault(file, sqlite3_extended_errcode(file->sql), err) : 0;
}

int draft_db_sql_begin(DraftDbFile **openp, DraftDbFile *file, ErrText *err) {
    int r = draft_db_sql_run(file, "BEGIN IMMEDIATE", err);

    if (!r)
        *openp = file;
    return r;
}

/* Commits. With synchronous = FULL the log is on the disk when this returns 0: kill -9 and a loss of power leave it. */
int draft_db_sql_commit(DraftDbFile *file, ErrText *err) {
    return draft_db_sql_run(file, "COMMIT", err);
}

void draft_db_sql_undo(DraftDbFile **openp) {
    if (*openp && (*openp)->sql && !sqlite3_get_autocommit((*openp)->sql))
        (void)sqlite3_exec((*openp)->sql, "ROLLBACK", NULL, NULL, NULL);
}

int draft_db_sql_checkpoint(DraftDbFile *file, ErrText *err) {
    int code = sqlite3_wal_checkpoint_v2(file->sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    return code ? sql_fault(file, code, err) : 0;
}

int draft_db_sql_number(DraftDbFile *file, const char *statement, int64_t *valuep, ErrText *err) {
    _cleanup_(sqlite3_finalizep) sqlite3_stmt *query = NULL;
    bool row = false;
    int r;

    r = draft_db_sql_prepare(file, &query, statement, err);
    if (!r)
        r = draft_db_sql_step(file, query, &row, err);
    if (!r && !row)
        r = sql_fault(file, SQLITE_CORRUPT, err);
    if (!r)
        *valuep = sqlite3_column_int64(query, 0);
    return r;
}
