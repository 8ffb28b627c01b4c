// SPDX-License-Identifier: Apache-2.0
/* Pre-tokenizers cut text into words by regular expressions, before byte-level BPE. */
#ifndef COORDGEN_TEXT_PRETOKENIZER_H
#define COORDGEN_TEXT_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

enum {
    PRETOKENIZER_E_UNKNOWN = 1, /* the name is unknown; the error has it */
};

/* Lengths of consecutive pieces of a text; zero-initialised it is empty. */
typedef struct PieceList {
    uint32_t *len_bytes;
    size_t n;
    size_t room;
} PieceList;

void piece_list_deinit(PieceList *list);

typedef struct Pretokenizer Pretokenizer; /* immutable after pretokenizer_new(): any thread may use it */

int pretokenizer_new(Pretokenizer **pretokenizerp, const char *name, size_t len_bytes, ErrText *err);
Pretokenizer *pretokenizer_free(Pretokenizer *pretokenizer);
DEFINE_CLEANUP(Pretokenizer, pretokenizer_free)

const char *pretokenizer_name(const Pretokenizer *pretokenizer); /* name of the family: "qwen2" */
bool pretokenizer_whole_words_first(const Pretokenizer *pretokenizer);
bool pretokenizer_adds_bos(const Pretokenizer *pretokenizer); /* unless the file says otherwise */
uint64_t pretokenizer_memory_bytes(const Pretokenizer *pretokenizer);

/* Replaces the contents of pieces by the words of the text, which add up to it. The text is any bytes; len_bytes <
 * 2^31. 0, -ENOMEM, -EIO (PCRE2 failed; err has its words). */
int pretokenizer_split(const Pretokenizer *pretokenizer, const char *text, size_t len_bytes, PieceList *pieces,
                       ErrText *err);

#endif
