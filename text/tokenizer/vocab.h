// SPDX-License-Identifier: Apache-2.0
/* The token table of a model: texts, types, scores, and the index from a text to its token. Immutable after
 * vocab_init(), and stays in its place. */
#ifndef COORDGEN_TEXT_VOCAB_H
#define COORDGEN_TEXT_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/gguf/gguf.h"
#include "text/chat/chat_marks.h"
#include "base/strings/text_index.h"

enum {
    VOCAB_E_CORRUPT = 1, /* the table contradicts itself; the error names key, index and value */
};

typedef enum TokenType { /* the numbers are the file format's */
    TOKEN_UNDEFINED = 0,
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
    _TOKEN_TYPE_N,
} TokenType;

/* Use of a token by its text, because the types in files are not reliable. */
typedef enum TokenRole {
    TOKEN_ROLE_NONE,
    TOKEN_ROLE_MARK, /* code infill and the chat template's marks: control tokens that do not end an answer */
    TOKEN_ROLE_TAG,  /* user-defined and in the chat template ("<think>"): shown, but no message becomes this token */
    TOKEN_ROLE_END,  /* ends a generation */
} TokenRole;

/* Tokens of code infill: what stands where in a text with a gap. */
typedef enum InfillMark {
    INFILL_PREFIX, /* before the text in front of the gap */
    INFILL_SUFFIX, /* before the text behind the gap */
    INFILL_MIDDLE, /* before the text of the gap, which the model writes */
    INFILL_PADDING,
    INFILL_REPOSITORY, /* before the name of a repository */
    INFILL_FILE,       /* before the name of a file */
    _INFILL_MARK_N,
} InfillMark;

typedef struct Vocab {
    uint32_t n_tokens;
    uint32_t n_chat;                 /* the chat template's control tokens and tags are below this id */
    bool byte_level;                 /* texts of ordinary tokens are kept as the bytes they stand for */
    char *texts;                     /* one arena */
    uint32_t *offsets;               /* [n_tokens + 1] into texts */
    uint8_t *types;                  /* [n_tokens] TokenType */
    uint8_t *roles;                  /* [n_tokens] TokenRole */
    uint32_t infill[_INFILL_MARK_N]; /* control tokens; UINT32_MAX: none */
    float *scores;                   /* [n_tokens], finite; NULL when byte_level */
    TextIndex words;                 /* tokens that ordinary text may become */
    TextIndex marks;         /* other tokens with a text: control, unknown, and those that are no byte-level text */
    uint32_t word_max_bytes; /* the longest text in words */
    uint32_t byte_ids[256];  /* token of a single byte, UINT32_MAX: none */
} Vocab;

int vocab_init(Vocab *vocab, const GgufFile *file, bool byte_level, const ChatMarks *marks, ErrText *err);
void vocab_deinit(Vocab *vocab);
uint64_t vocab_memory_bytes(const Vocab *vocab);

static inline const char *vocab_text(const Vocab *vocab, uint32_t id, uint32_t *len_bytesp) {
    *len_bytesp = vocab->offsets[id + 1] - vocab->offsets[id];
    return vocab->texts + vocab->offsets[id];
}

/* Finds a token by its text in the file; UINT32_MAX: absent. */
uint32_t vocab_find(const Vocab *vocab, const char *text, size_t len_bytes);

/* Decodes the byte-level alphabet: printable bytes stand for themselves, U+0100 and following for the other 68. Writes
 * at most len_bytes bytes; false: the text holds another character. */
bool byte_level_decode(const char *text, size_t len_bytes, char *bytes, size_t *n_bytesp);

#endif
