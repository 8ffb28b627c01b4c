// SPDX-License-Identifier: Apache-2.0
/* Text to token ids and back: byte-level BPE and SentencePiece-style tokenizers read from GGUF metadata. */
#ifndef COORDGEN_TEXT_TOKENIZER_H
#define COORDGEN_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/strings/str_buf.h"
#include "model/gguf/gguf.h"

enum {
    TOKENIZER_E_UNSUPPORTED = 1, /* a tokenizer model or pre-tokenizer that is not known; the text names it */
    TOKENIZER_E_CORRUPT = 2,     /* tables that contradict themselves */
    TOKENIZER_E_TOO_LONG = 3,    /* a text of more than 64 MiB */
    TOKENIZER_E_DIFFERENT = 4,   /* two tables that mean different things by an id, which the text names */
};

#define TOKEN_NONE UINT32_MAX

/* Growing list of token ids. */
typedef struct TokenList {
    uint32_t *ids;
    size_t n;
    size_t room;
} TokenList;

int token_list_add(TokenList *list, uint32_t id); /* 0 or -ENOMEM */
void token_list_deinit(TokenList *list);

typedef struct Tokenizer Tokenizer; /* immutable after tokenizer_new(): any number of threads may use it */

#define TOKENIZER_KEY_CHAT_TEMPLATE "tokenizer.chat_template"
/* Where a file has several templates: of another one, behind it the name. */
#define TOKENIZER_KEY_CHAT_TEMPLATE_NAMED TOKENIZER_KEY_CHAT_TEMPLATE "."
#define TOKENIZER_KEY_CHAT_TEMPLATE_TOOLS TOKENIZER_KEY_CHAT_TEMPLATE_NAMED "tool_use"

/* Copies what it keeps: the file may be closed afterwards. The marks of the file's chat templates are control tokens,
 * whatever type it gives them. */
int tokenizer_new(Tokenizer **tokenizerp, const GgufFile *file, ErrText *err);
/* The same with another chat template than the file's. */
int tokenizer_new_for_chat(Tokenizer **tokenizerp, const GgufFile *file, const char *chat_template, size_t len_bytes,
                           ErrText *err);
Tokenizer *tokenizer_free(Tokenizer *tokenizer);
DEFINE_CLEANUP(Tokenizer, tokenizer_free)

typedef enum TokenizeFlags {
    TOKENIZE_ADD_BOS = 1u << 0,       /* if the model's metadata asks for it: a prompt, which is to be continued */
    TOKENIZE_PARSE_SPECIAL = 1u << 1, /* control tokens in the text are recognised: for template marks only */
    TOKENIZE_ADD_EOS = 1u << 2,       /* likewise, behind a text that is whole */
    TOKENIZE_ADD_SPECIAL = TOKENIZE_ADD_BOS | TOKENIZE_ADD_EOS,
} TokenizeFlags;

/* Memory for a byte of text at most while it becomes tokens: they, symbols and candidates, which double as they
 * grow. */
#define TOKENIZER_SCRATCH_BYTES 64

/* Appends to list. Text is any bytes: ill-formed UTF-8 is tokenized byte by byte. Time linear in the text. */
int tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t len_bytes, unsigned int flags,
                     TokenList *list, ErrText *err);

/* What a chat template wrote: control tokens are recognised where all their bytes are its own (own[i] is 1), and so are
 * its tags; other user-defined tokens anywhere. */
int tokenizer_encode_own(const Tokenizer *tokenizer, const char *text, const uint8_t *own, size_t len_bytes,
                         TokenList *list, ErrText *err);

uint32_t tokenizer_n_tokens(const Tokenizer *tokenizer);
uint32_t tokenizer_bos(const Tokenizer *tokenizer); /* TOKEN_NONE when the model has none */
uint32_t tokenizer_eos(const Tokenizer *tokenizer);
uint32_t tokenizer_unknown(const Tokenizer *tokenizer);
uint32_t tokenizer_padding(const Tokenizer *tokenizer);
bool tokenizer_adds_bos(const Tokenizer *tokenizer);
bool tokenizer_is_end(const Tokenizer *tokenizer, uint32_t id);     /* ends a generation */
bool tokenizer_is_control(const Tokenizer *tokenizer, uint32_t id); /* has no text of its own */
/* Whether a control token has this text in the file. */
bool tokenizer_is_control_named(const Tokenizer *tokenizer, uint32_t id, const char *text);
/* Id of a token by its text as it stands in the file, or TOKEN_NONE. */
uint32_t tokenizer_find(const Tokenizer *tokenizer, const char *text);
const char *tokenizer_model_name(const Tokenizer *tokenizer); /* "gpt2/smollm", "llama" */
uint64_t tokenizer_memory_bytes(const Tokenizer *tokenizer);
/* Of the token table: whoever has the same means the same by the same ids. [TOKENIZER_HASH_BYTES], as long as the
 * tokenizer lives. */
#define TOKENIZER_HASH_BYTES 32
const uint8_t *tokenizer_hash(const Tokenizer *tokenizer);

/* Compares the tokens that both tables begin with: ids below *n_tokensp mean the same in both. The names are for the
 * text. 0, TOKENIZER_E_DIFFERENT. */
int tokenizer_compare(const Tokenizer *a, const char *a_name, const Tokenizer *b, const char *b_name,
                      uint32_t *n_tokensp, ErrText *err);

/* The bytes that a token stands for (control tokens: none unless with_special, then their name); appended to text. */
int tokenizer_piece(const Tokenizer *tokenizer, uint32_t id, bool with_special, StrBuf *text);

/* Streaming detokenizer: gives out whole UTF-8 sequences, holds incomplete ones back. Bytes that can never become a
 * sequence come out as U+FFFD. Embedded by value. */
typedef struct Detokenizer {
    const Tokenizer *tokenizer;
    uint8_t held[4];
    uint8_t n_held;
    bool at_start;     /* nothing given out yet: a space that the tokenizer put before the text is dropped */
    bool with_special; /* control tokens are shown by name */
} Detokenizer;

void detokenizer_init(Detokenizer *detokenizer, const Tokenizer *tokenizer, bool at_start, bool with_special);
/* Appends to text. 0, -EINVAL (no such id), -ENOMEM. */
int detokenizer_push(Detokenizer *detokenizer, uint32_t id, StrBuf *text);
int detokenizer_finish(Detokenizer *detokenizer, StrBuf *text); /* what is still held, as U+FFFD */
size_t detokenizer_held(const Detokenizer *detokenizer);        /* bytes of a sequence that has begun */

#endif
