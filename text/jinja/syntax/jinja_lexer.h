// SPDX-License-Identifier: Apache-2.0
/* Cuts a template into tokens: the text between tags, and the words in tags. White space is cut as Jinja does with
 * trim_blocks and lstrip_blocks.
 *
 * A failure of the lexer or of the code above it jumps back to jinja_lexer_attempt(), which returns the error. The
 * arena owns all memory, so nothing has to be released on the way. No function between may own anything else. */
#ifndef COORDGEN_TEXT_JINJA_LEXER_H
#define COORDGEN_TEXT_JINJA_LEXER_H

#include <setjmp.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "text/jinja/jinja_limits.h"
#include "text/jinja/values/jinja_value.h"

typedef enum JinjaTokenKind {
    JINJA_TOKEN_END,
    JINJA_TOKEN_DATA,
    JINJA_TOKEN_PRINT_BEGIN,
    JINJA_TOKEN_PRINT_END,
    JINJA_TOKEN_BLOCK_BEGIN,
    JINJA_TOKEN_BLOCK_END,
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_TEXT,
    JINJA_TOKEN_NUMBER,
    JINJA_TOKEN_OPERATOR,
} JinjaTokenKind;

typedef struct JinjaToken {
    JinjaTokenKind kind;
    uint32_t line;
    const char *data; /* as it is written */
    size_t len_bytes;
    JinjaValue value; /* of data, text, number */
} JinjaToken;

typedef enum JinjaLexerState {
    JINJA_LEXER_TEXT,
    JINJA_LEXER_BLOCK,
    JINJA_LEXER_PRINT,
} JinjaLexerState;

typedef struct JinjaLexer {
    JinjaArena *arena;
    ErrText *err;
    const char *source; /* line breaks are \n */
    size_t len_bytes, at;
    uint32_t line;
    JinjaLexerState state;
    bool at_line_start; /* nothing of the line stands before the text that follows */
    bool has_tag;       /* the next token is the beginning of a tag */
    uint32_t n_open;    /* brackets, in which no tag ends; the parser checks that they match */
    int failure;        /* the error after a jump to failed */
    jmp_buf failed;     /* set by jinja_lexer_attempt() */
} JinjaLexer;

/* Calls work with a lexer of which arena and err are set. Returns 0 or the error: JINJA_E_SYNTAX, JINJA_E_LIMIT,
 * -ENOMEM, or the code that work threw. */
int jinja_lexer_attempt(JinjaLexer *lexer, void (*work)(JinjaLexer *lexer, void *context), void *context);
/* Copies the source into the arena. Only work calls this function and those below. */
void jinja_lexer_init(JinjaLexer *lexer, const char *source, size_t len_bytes);
JinjaToken jinja_lexer_next(JinjaLexer *lexer);

/* Ends the parse with a code whose text is in lexer->err already. */
_Noreturn void jinja_lexer_throw(JinjaLexer *lexer, int code);
/* Takes zeroed memory of the template; never NULL. */
void *jinja_lexer_take(JinjaLexer *lexer, size_t n, size_t each_bytes);
/* Wraps bytes of the template as a text of its own. */
const JinjaText *jinja_lexer_text(JinjaLexer *lexer, const char *data, size_t len_bytes);

#endif
