// SPDX-License-Identifier: Apache-2.0
/* A user's part of the draft database as a file: written for the user, read back whole or not at all. */
#ifndef COORDGEN_SPEC_DRAFT_DB_TRANSFER_H
#define COORDGEN_SPEC_DRAFT_DB_TRANSFER_H

#include "spec/db/draft_db.h"

#define DRAFT_DB_EXPORT_BYTES_MAX (1u << 30) /* longest export that is written or read */

typedef struct DraftDbImported {
    uint64_t n_documents;
    uint64_t n_expired; /* documents older than the limit, which are left out */
} DraftDbImported;

/* Export and import, from where fd stands. Only regular files: no reader or writer at their other end can hold anything
 * up. */
int draft_db_export(DraftDb *db, uint32_t uid, int fd, uint64_t *n_documentsp, ErrText *err);
int draft_db_import(DraftDb *db, uint32_t uid, int fd, const DraftClockReading *now, DraftDbImported *importedp,
                    ErrText *err);

#endif
