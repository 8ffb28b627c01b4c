// SPDX-License-Identifier: Apache-2.0
/* Shared by the parts of the draft database: rows, within a transaction that the caller has begun. */
#ifndef COORDGEN_SPEC_DRAFT_DB_PRIVATE_H
#define COORDGEN_SPEC_DRAFT_DB_PRIVATE_H

#include "spec/db/draft_db.h"
#include "spec/db/draft_db_age.h"
#include "spec/db/draft_db_file.h"

struct DraftDb {
    DraftDbFile file;
    DraftDbLimits limits;
    bool has_trimmed;  /* whether documents were checked for their age */
    int64_t trimmed_s; /* when they were, as DraftDbMoment.ran_s */
};

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
void draft_db_owner(const DraftDbDocument *document, uint8_t owner[DRAFT_DB_OWNER_BYTES]);
int draft_db_may_add(DraftDb *db, uint32_t uid, ErrText *err);
int draft_db_insert(DraftDb *db, const DraftDbDocument *document, int64_t ran_s, int64_t *idp, ErrText *err);
int draft_db_trim(DraftDb *db, const DraftDbMoment *moment, const uint32_t *adder, int64_t first_new, ErrText *err);
/* Finds the user's next row behind id, of one tokenizer or of all (NULL). *@foundp false: there is none. */
int draft_db_next(DraftDb *db, uint32_t uid, const uint8_t *tokenizer, bool newest_first, int64_t id, DraftDbRow *row,
                  bool *foundp, ErrText *err);

#endif
