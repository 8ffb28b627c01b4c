// SPDX-License-Identifier: Apache-2.0
/* The tables of the draft database: made, compared with what a file has, and brought up from the form of before. */
#ifndef COORDGEN_SPEC_DRAFT_DB_SCHEMA_H
#define COORDGEN_SPEC_DRAFT_DB_SCHEMA_H

#include "spec/db/draft_db_file.h"

int draft_db_schema_make(DraftDbFile *file, ErrText *err);
/* From form 1, in one transaction; the file's form is that of today with 0 alone. */
int draft_db_schema_upgrade(DraftDbFile *file, ErrText *err);
/* Reads the form, and compares tables and their sums with it. 0, DRAFT_DB_E_DAMAGED. */
int draft_db_schema_check(DraftDbFile *file, ErrText *err);

#endif
