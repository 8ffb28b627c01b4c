// SPDX-License-Identifier: Apache-2.0
/* Table of pre-tokenizers: the expressions of each family, and the names that files have for them. */
#ifndef COORDGEN_TEXT_PRETOKENIZER_TABLE_H
#define COORDGEN_TEXT_PRETOKENIZER_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#define PRETOKENIZER_STAGES_MAX 6

typedef struct PretokenizerFamily {
    const char *name;
    /* Expressions for PCRE2 with UTF and UCP. Each cuts the pieces of the one before; text without a match is a piece
     * too. */
    const char *stages[PRETOKENIZER_STAGES_MAX];
    bool whole_words_first; /* a word that is a token is that token, whatever the merges say */
    bool adds_bos;          /* BOS is added unless the file says otherwise */
} PretokenizerFamily;

/* Finds the family of a name in a file; "": the file has no name. NULL: the name is unknown. */
const PretokenizerFamily *pretokenizer_family(const char *name, size_t len_bytes);
/* Lists all families and all names; NULL behind the last. */
const PretokenizerFamily *pretokenizer_family_at(size_t index);
const char *pretokenizer_known(size_t index);

#endif
