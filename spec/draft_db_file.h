// SPDX-License-Identifier: Apache-2.0
/* The SQLite file of the draft database: made, looked over when it is opened, set aside when it is damaged; SQLite's
 * results as the error codes of spec/draft_db.h. */
#ifndef COORDGEN_SPEC_DRAFT_DB_FILE_H
#define COORDGEN_SPEC_DRAFT_DB_FILE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

typedef struct DraftDbFile {
    char *path;
    sqlite3 *sql; /* NULL: closed after an error, opened again by draft_db_file_ready() */
    int lock_fd;  /* of PATH.lock, which has the number of the process that holds it */
} DraftDbFile;

int draft_db_file_init(DraftDbFile *file, const char *path, ErrText *err);
void draft_db_file_deinit(DraftDbFile *file);
/* Open, or open again. 0, DRAFT_DB_E_SET_ASIDE with an empty database open, or an error with none. */
int draft_db_file_ready(DraftDbFile *file, ErrText *err);
/* A damaged database, where r says so, is set aside and an empty one made: what to return for r. */
int draft_db_file_judge(DraftDbFile *file, int r, ErrText *err);
/* Copies of damaged ones that were last written before then are deleted; UINT64_MAX: all. */
int draft_db_file_drop_set_aside(DraftDbFile *file, uint64_t before_s, ErrText *err);

int draft_db_file_run(DraftDbFile *file, const char *statement, ErrText *err);
int draft_db_file_prepare(DraftDbFile *file, sqlite3_stmt **statementp, const char *statement, ErrText *err);
int draft_db_file_step(DraftDbFile *file, sqlite3_stmt *statement, bool *rowp, ErrText *err);
/* A transaction that writes; *@openp is its owner's, and undoes it with draft_db_file_undo() if it is still open
 * then. */
int draft_db_file_begin(DraftDbFile **openp, DraftDbFile *file, ErrText *err);
int draft_db_file_commit(DraftDbFile *file, ErrText *err);
void draft_db_file_undo(DraftDbFile **openp);
/* What was written goes from the log into the file, and the log is emptied. */
int draft_db_file_checkpoint(DraftDbFile *file, ErrText *err);

static inline void sqlite3_finalizep(sqlite3_stmt **statementp) {
    sqlite3_finalize(*statementp);
}

#endif
