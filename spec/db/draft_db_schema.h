// SPDX-License-Identifier: Apache-2.0
/* The tables of the draft database: made, compared with a file's, and brought up from form 1. */
#ifndef COORDGEN_SPEC_DRAFT_DB_SCHEMA_H
#define COORDGEN_SPEC_DRAFT_DB_SCHEMA_H

#include "spec/db/draft_db_file.h"

int draft_db_schema_make(DraftDbFile *file, ErrText *err);
/* Brings the file up from form 1 in one transaction; the file has today's form only if this returns 0. */
int draft_db_schema_upgrade(DraftDbFile *file, ErrText *err);
/* Reads the form, and compares tables and their sums with it. 0, DRAFT_DB_E_DAMAGED. */
int draft_db_schema_check(DraftDbFile *file, ErrText *err);

#endif
