// SPDX-License-Identifier: Apache-2.0
/* The words of a template: text between tags, and what stands in them. White space is cut as Jinja does with
 * trim_blocks and lstrip_blocks. */
#ifndef COORDGEN_TEXT_JINJA_LEXER_H
#define COORDGEN_TEXT_JINJA_LEXER_H

#include "text/jinja/jinja_value.h"

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
    JinjaValue value; /* data, text, number */
} JinjaToken;

typedef enum JinjaLexerState {
    JINJA_LEXER_TEXT,
    JINJA_LEXER_BLOCK,
    JINJA_LEXER_PRINT,
    JINJA_LEXER_RAW,
} JinjaLexerState;

typedef struct JinjaLexer {
    JinjaArena *arena;
    ErrText *err;
    const char *source; /* line breaks are \n */
    size_t len_bytes, at;
    uint32_t line;
    JinjaLexerState state;
    bool at_line_start; /* nothing of its line was before what comes */
    bool has_tag;       /* the beginning of a tag is to be given out */
    char open[JINJA_NESTING_MAX];
    uint32_t n_open;
} JinjaLexer;

/* Copies the source into the arena. 0, JINJA_E_SYNTAX, JINJA_E_LIMIT, -ENOMEM. */
int jinja_lexer_init(JinjaLexer *lexer, JinjaArena *arena, const char *source, size_t len_bytes, ErrText *err);
int jinja_lexer_next(JinjaLexer *lexer, JinjaToken *token);

#endif
