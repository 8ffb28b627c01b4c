// SPDX-License-Identifier: Apache-2.0
/* Documents of the draft database as rows of its tables: read, added, deleted, and trimmed to the limits. Adding and
 * trimming need a transaction that the caller has begun. */
#ifndef COORDGEN_SPEC_DRAFT_DB_ROWS_H
#define COORDGEN_SPEC_DRAFT_DB_ROWS_H

#include <stdlib.h>

#include "base/err.h"
#include "spec/db/draft_db_age.h"
#include "spec/db/draft_db_types.h"

#define DRAFT_DB_OWNER_BYTES (16 + DRAFT_DB_TOKENIZER_BYTES)

typedef struct DraftDbRow {
    int64_t id;
    bool damaged; /* the document must not be used */
    DraftDbDocument document;
    uint8_t tokenizer[DRAFT_DB_TOKENIZER_BYTES];
    uint32_t *tokens;
} DraftDbRow;

static inline void draft_db_row_deinit(DraftDbRow *row) {
    free(row->tokens);
    row->tokens = NULL;
}

/* Fills the owner that a blob's checksum covers beside the tokens. */
void draft_db_rows_owner(const DraftDbDocument *document, uint8_t owner[DRAFT_DB_OWNER_BYTES]);
int draft_db_rows_may_add(DraftDb *db, uint32_t uid, ErrText *err);
int draft_db_rows_insert(DraftDb *db, const DraftDbDocument *document, int64_t ran_s, int64_t *idp, ErrText *err);
/* Deletes what is too old and what is beyond the limits. */
int draft_db_rows_trim(DraftDb *db, const DraftDbMoment *moment, const uint32_t *adder, int64_t first_new,
                       ErrText *err);
int draft_db_rows_drop(DraftDb *db, int64_t id, ErrText *err);
/* Finds the user's next row behind id, of one tokenizer or of all (NULL). *@foundp false: there is none. */
int draft_db_rows_next(DraftDb *db, uint32_t uid, const uint8_t *tokenizer, bool newest_first, int64_t id,
                       DraftDbRow *row, bool *foundp, ErrText *err);

#endif
