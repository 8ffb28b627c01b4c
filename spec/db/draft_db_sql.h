// SPDX-License-Identifier: Apache-2.0
/* SQLite's connection to the file of the draft database: statements and transactions. SQLite's results become the
 * error codes of spec/db/draft_db_types.h. */
#ifndef COORDGEN_SPEC_DRAFT_DB_SQL_H
#define COORDGEN_SPEC_DRAFT_DB_SQL_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

typedef struct DraftDbFile {
    char *path;
    sqlite3 *sql; /* NULL: closed after an error, opened again by draft_db_file_ready() */
    int lock_fd;  /* PATH.lock, which contains the id of the process that holds it */
    bool is_old;  /* the file has form 1: there was no room to bring it up */
} DraftDbFile;

/* Returns a result of SQLite as a code of the module. */
int draft_db_sql_result(const DraftDbFile *file, int code, ErrText *err);
int draft_db_sql_run(DraftDbFile *file, const char *statement, ErrText *err);
int draft_db_sql_prepare(DraftDbFile *file, sqlite3_stmt **statementp, const char *statement, ErrText *err);
/* Reads the integer that a statement gives; a damaged file may give none. */
int draft_db_sql_number(DraftDbFile *file, const char *statement, int64_t *valuep, ErrText *err);
int draft_db_sql_step(DraftDbFile *file, sqlite3_stmt *statement, bool *rowp, ErrText *err);
/* Begins a transaction that writes. *@openp belongs to the caller, who ends an open transaction with
 * draft_db_sql_undo(). */
int draft_db_sql_begin(DraftDbFile **openp, DraftDbFile *file, ErrText *err);
int draft_db_sql_commit(DraftDbFile *file, ErrText *err);
void draft_db_sql_undo(DraftDbFile **openp);
/* Moves what was written from the log into the file, and empties the log. */
int draft_db_sql_checkpoint(DraftDbFile *file, ErrText *err);

static inline void sqlite3_finalizep(sqlite3_stmt **statementp) {
    sqlite3_finalize(*statementp);
}

#endif
