// SPDX-License-Identifier: Apache-2.0
/* The file of the draft database: made, locked, checked when it is opened, set aside when it is damaged. */
#ifndef COORDGEN_SPEC_DRAFT_DB_FILE_H
#define COORDGEN_SPEC_DRAFT_DB_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "spec/db/draft_db_sql.h"

/* Checks a folder that exists as opening does. 0, -errno with a text. */
int draft_db_file_check_folder(const char *folder, ErrText *err);
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

/* Begins a transaction as draft_db_sql_begin() does, after bringing an old file up to today's form. */
int draft_db_file_begin(DraftDbFile **openp, DraftDbFile *file, ErrText *err);

#endif
