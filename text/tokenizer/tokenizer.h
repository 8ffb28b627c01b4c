// SPDX-License-Identifier: Apache-2.0
/* Turns text into token ids and back, by byte-level BPE or SentencePiece-style tokenizers of GGUF files. */
#ifndef COORDGEN_TEXT_TOKENIZER_H
#define COORDGEN_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/strings/str_buf.h"
#include "model/gguf/gguf.h"
#include "text/tokenizer/token_list.h"

enum {
    TOKENIZER_E_UNSUPPORTED = 1, /* the tokenizer model or pre-tokenizer is unknown; the error names it */
    TOKENIZER_E_CORRUPT = 2,     /* the file's tables contradict themselves */
    TOKENIZER_E_TOO_LONG = 3,    /* the text has more than 64 MiB */
    TOKENIZER_E_DIFFERENT = 4,   /* two tables mean different things by an id, which the error names */
    TOKENIZER_E_NO_INFILL = 5,   /* the model has no tokens for a text with a gap */
};

typedef struct Tokenizer Tokenizer; /* immutable after tokenizer_new(): any number of threads may use it */

#define TOKENIZER_KEY_CHAT_TEMPLATE "tokenizer.chat_template"
/* Key of a further template, with its name behind the dot. */
#define TOKENIZER_KEY_CHAT_TEMPLATE_NAMED TOKENIZER_KEY_CHAT_TEMPLATE "."
#define TOKENIZER_KEY_CHAT_TEMPLATE_TOOLS TOKENIZER_KEY_CHAT_TEMPLATE_NAMED "tool_use"

/* Makes the tokenizer of a file, which may be closed afterwards. The marks of the file's chat templates are control
 * tokens, whatever type the file gives them. 0, TOKENIZER_E_UNSUPPORTED, TOKENIZER_E_CORRUPT, -errno. */
int tokenizer_new(Tokenizer **tokenizerp, const GgufFile *file, ErrText *err);
/* Makes the tokenizer with another chat template than the file's. */
int tokenizer_new_for_chat(Tokenizer **tokenizerp, const GgufFile *file, const char *chat_template, size_t len_bytes,
                           ErrText *err);
Tokenizer *tokenizer_free(Tokenizer *tokenizer);
DEFINE_CLEANUP(Tokenizer, tokenizer_free)

typedef enum TokenizeFlags {
    TOKENIZE_ADD_BOS =
        1u << 0, /* adds BOS if the model's metadata asks for it: for prompts, which are to be continued */
    TOKENIZE_PARSE_SPECIAL = 1u << 1, /* recognises control tokens in the text: for marks of templates only */
    TOKENIZE_ADD_EOS = 1u << 2,       /* adds EOS if the metadata asks for it: for texts that are complete */
    TOKENIZE_ADD_SPECIAL = TOKENIZE_ADD_BOS | TOKENIZE_ADD_EOS,
    TOKENIZE_NO_SPACE_PREFIX = 1u << 3, /* SentencePiece-style: puts no space before the text */
} TokenizeFlags;

/* Memory for each byte of text, at most, while it becomes tokens: tokens, symbols and candidates, whose lists double as
 * they grow. */
#define TOKENIZER_SCRATCH_BYTES 64

/* Appends the tokens of a text to list. The text is any bytes: ill-formed UTF-8 is tokenized byte by byte. The time is
 * linear in the text. 0, TOKENIZER_E_TOO_LONG, -errno. */
int tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t len_bytes, unsigned int flags,
                     TokenList *list, ErrText *err);

/* Appends the tokens of a text that a chat template wrote. Control tokens and tags are recognised where all of their
 * bytes are the template's own (own[i] is 1), other user-defined tokens anywhere. Errors are as above. */
int tokenizer_encode_own(const Tokenizer *tokenizer, const char *text, const uint8_t *own, size_t len_bytes,
                         TokenList *list, ErrText *err);

/* Appends the prompt for a text with a gap, which the model is to fill in: BOS if the metadata asks for it, and the two
 * texts between the model's marks. No text becomes a mark. 0, TOKENIZER_E_NO_INFILL, TOKENIZER_E_TOO_LONG, -errno; on
 * error the list is as it was. */
int tokenizer_encode_infill(const Tokenizer *tokenizer, const char *before, size_t before_bytes, const char *behind,
                            size_t behind_bytes, TokenList *list, ErrText *err);
/* Whether a token is a mark of code infill, which ends the text of a gap. */
bool tokenizer_is_infill_mark(const Tokenizer *tokenizer, uint32_t id);

uint32_t tokenizer_n_tokens(const Tokenizer *tokenizer);
uint32_t tokenizer_bos(const Tokenizer *tokenizer); /* TOKEN_NONE: the model has none */
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
/* Returns the id of a control token or user-defined token by its text, or TOKEN_NONE. The template's own text alone can
 * become such a token in a chat, if the template writes it. */
uint32_t tokenizer_find_added(const Tokenizer *tokenizer, const char *text);
const char *tokenizer_model_name(const Tokenizer *tokenizer); /* "gpt2/smollm", "llama" */
uint64_t tokenizer_memory_bytes(const Tokenizer *tokenizer);
/* Hash of the token table: tokenizers with equal hashes mean the same by the same ids. [TOKENIZER_HASH_BYTES], valid as
 * long as the tokenizer. */
#define TOKENIZER_HASH_BYTES 32
const uint8_t *tokenizer_hash(const Tokenizer *tokenizer);

/* Compares the tokens that both tables begin with: ids below *n_tokensp mean the same in both. The error has the names.
 * 0, TOKENIZER_E_DIFFERENT. */
int tokenizer_compare(const Tokenizer *a, const char *a_name, const Tokenizer *b, const char *b_name,
                      uint32_t *n_tokensp, ErrText *err);

/* Appends the bytes that a token stands for to text. Control tokens have none, or their name if with_special is set. */
int tokenizer_piece(const Tokenizer *tokenizer, uint32_t id, bool with_special, StrBuf *text);

/* Streaming detokenizer: gives out whole UTF-8 sequences and holds incomplete ones back. Bytes that can never become a
 * sequence come out as U+FFFD. Embedded by value. */
typedef struct Detokenizer {
    const Tokenizer *tokenizer;
    uint8_t held[4];
    uint8_t n_held;
    bool at_start;     /* nothing was given out yet, so the space that the tokenizer put before the text is dropped */
    bool with_special; /* control tokens are shown by name */
} Detokenizer;

void detokenizer_init(Detokenizer *detokenizer, const Tokenizer *tokenizer, bool at_start, bool with_special);
/* Appends the text that a token completes. 0, -EINVAL (no such id), -ENOMEM. */
int detokenizer_push(Detokenizer *detokenizer, uint32_t id, StrBuf *text);
int detokenizer_finish(Detokenizer *detokenizer, StrBuf *text); /* appends held bytes as U+FFFD */
size_t detokenizer_held(const Detokenizer *detokenizer);        /* bytes of an incomplete sequence */

#endif
