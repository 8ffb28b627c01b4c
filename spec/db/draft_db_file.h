// SPDX-License-Identifier: Apache-2.0
/* The SQLite file of the draft database: made, checked when it is opened, set aside when it is damaged. SQLite's
 * results become the error codes of spec/db/draft_db.h. */
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
    int lock_fd;  /* PATH.lock, which contains the id of the process that holds it */
    bool is_old;  /* the file has form 1: there was no room to bring it up */
} DraftDbFile;

int draft_db_file_init(DraftDbFile *file, const char *path, ErrText *err);
void draft_db_file_deinit(DraftDbFile *file);
/* Opens the file, or opens it again. 0, DRAFT_DB_E_SET_ASIDE with an empty database open, or an error with none
 * open. */
int draft_db_file_ready(DraftDbFile *file, ErrText *err);
void draft_db_file_close(DraftDbFile *file); /* closes it; draft_db_file_ready() opens it again */
/* Sets a damaged database aside, if r says that it is damaged, and makes an empty one; returns what to return for r. */
int draft_db_file_judge(DraftDbFile *file, int r, ErrText *err);
/* Deletes the copies of damaged databases. */
int draft_db_file_drop_set_aside(DraftDbFile *file, ErrText *err);
/* Removes set-aside files last written more than age_max_s before believed_s. A file that is later than date_s gets
 * date_s as its time. */
int draft_db_file_expire_set_aside(DraftDbFile *file, int64_t date_s, int64_t believed_s, uint64_t age_max_s,
                                   ErrText *err);

/* Whether a file that cannot be opened for lack of room is one in which nothing has ever been stored. */
bool draft_db_file_is_blank(const DraftDbFile *file);

/* Returns a result of SQLite as a code of the module. */
int draft_db_file_result(const DraftDbFile *file, int code, ErrText *err);
int draft_db_file_run(DraftDbFile *file, const char *statement, ErrText *err);
int draft_db_file_prepare(DraftDbFile *file, sqlite3_stmt **statementp, const char *statement, ErrText *err);
/* Reads the integer that a statement gives; a damaged file may give none. */
int draft_db_file_number(DraftDbFile *file, const char *statement, int64_t *valuep, ErrText *err);
int draft_db_file_step(DraftDbFile *file, sqlite3_stmt *statement, bool *rowp, ErrText *err);
/* Begins a transaction that writes, in today's form. *@openp belongs to the caller, who ends an open transaction with
 * draft_db_file_undo(). */
int draft_db_file_begin(DraftDbFile **openp, DraftDbFile *file, ErrText *err);
int draft_db_file_commit(DraftDbFile *file, ErrText *err);
void draft_db_file_undo(DraftDbFile **openp);
/* Moves what was written from the log into the file, and empties the log. */
int draft_db_file_checkpoint(DraftDbFile *file, ErrText *err);

static inline void sqlite3_finalizep(sqlite3_stmt **statementp) {
    sqlite3_finalize(*statementp);
}

#endif
