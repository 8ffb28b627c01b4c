// SPDX-License-Identifier: Apache-2.0
/* Codes and structs that all parts of the draft database share. */
#ifndef COORDGEN_SPEC_DRAFT_DB_TYPES_H
#define COORDGEN_SPEC_DRAFT_DB_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRAFT_DB_E_SET_ASIDE =
        /* the database was damaged and is set aside, with an empty one in its place; the text is for the log */
        1,
    DRAFT_DB_E_DAMAGED,   /* used inside the module: the database must be set aside */
    DRAFT_DB_E_FULL,      /* no room on the disk or within the limits: nothing was stored */
    DRAFT_DB_E_TOO_LARGE, /* the document is longer than any may be */
    DRAFT_DB_E_FROZEN,    /* the user's part is frozen and takes nothing */
    DRAFT_DB_E_BUSY,      /* another process has the database; the text names the process where it is known */
    DRAFT_DB_E_FORMAT,    /* import: the file is not a whole export */
};

#define DRAFT_DB_TOKENIZER_BYTES 32
#define DRAFT_DB_SET_ASIDE_MAX 2 /* damaged databases that are kept: PATH.corrupt-1 is the latest */
#define DRAFT_DB_ROW_BYTES 128   /* bytes that a document is charged beside its blob, before whole pages are counted */

/* Limits; 0: none. Age counts as spec/db/draft_clock.h tells. */
typedef struct DraftDbLimits {
    uint64_t bytes_max;
    uint32_t documents_max;
    uint64_t age_max_s;
} DraftDbLimits;

typedef struct DraftDbDocument {
    uint32_t uid;
    const uint8_t *tokenizer; /* [DRAFT_DB_TOKENIZER_BYTES], a hash of the token table */
    const uint32_t *tokens;   /* [n_tokens]: as much of the prompt as its caller gives, then the answer */
    size_t n_tokens;
    size_t n_prompt; /* <= n_tokens */
    uint64_t time_s; /* date when the document was stored: seconds since 1970, as the clock said */
} DraftDbDocument;

typedef struct DraftDbStats {
    uint32_t uid;
    bool frozen;
    uint64_t n_documents, n_tokens, bytes;
    uint64_t oldest_s, newest_s; /* 0: no documents */
} DraftDbStats;

/* What to forget: all documents for which every given condition holds; without any condition all. */
typedef struct DraftDbForget {
    const uint32_t *uid;
    const uint8_t *tokenizer;
    const uint64_t *before_s;
} DraftDbForget;

typedef struct DraftDbRead {
    uint64_t n_documents, n_tokens;
    uint64_t n_dropped; /* damaged documents, which are deleted now */
} DraftDbRead;

typedef struct DraftDb DraftDb;

#endif
