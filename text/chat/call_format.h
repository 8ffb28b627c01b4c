// SPDX-License-Identifier: Apache-2.0
/* Formats of tool calls, as answer_parts sees them: where a call may begin in an answer, and a parser that takes over
 * there. See docs/answer-parts.md. */
#ifndef COORDGEN_TEXT_CHAT_CALL_FORMAT_H
#define COORDGEN_TEXT_CHAT_CALL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of a call. Texts are valid during the callback and are not NUL-terminated. */
typedef struct CallPiece {
    uint32_t index;   /* which call of the answer, from 0; set by answer_parts: each name begins a call */
    const char *name; /* first piece of a call; else NULL */
    size_t name_bytes;
    const char *id; /* with the name, if the model wrote one; else NULL */
    size_t id_bytes;
    const char *arguments; /* the next bytes of a JSON object; may be empty */
    size_t arguments_bytes;
} CallPiece;

typedef void CallPieceFn(void *arg, const CallPiece *piece);

typedef enum CallState {
    CALL_GOES_ON, /* all bytes were taken, and more are wanted */
    CALL_OVER,    /* the calls of this start mark are complete; bytes that were not taken are ordinary again */
    /* Not a call: the start mark and the bytes taken since then are text. Allowed until the parser has given out the
     * first piece. Bytes that were not taken are looked at again, so a start mark may be among them. */
    CALL_IS_TEXT,
    CALL_FAILED, /* -ENOMEM in the parser: the answer fails */
} CallState;

/* A place at which a parser takes over. */
typedef struct CallStart {
    const char *text; /* "<tool_call>". If the vocabulary has a token of this text, only that token counts */
    bool is_at_front; /* only where the answer has nothing before it but thinking, calls and white space */
    bool is_argument; /* push() gets the mark too, as its first bytes, and takes it: "{" */
} CallStart;

typedef struct CallTools CallTools; /* the request's tools, which the format's own module reads */

#define CALL_STARTS_MAX 4
#define CALL_TOKENS_MAX 8

/* A format. Its parser is a block of parser_bytes, zeroed before each begin(). Parsers work byte by byte: cutting the
 * bytes elsewhere changes no result. */
typedef struct CallFormat {
    const char *name; /* "hermes" */
    CallStart starts[CALL_STARTS_MAX];
    size_t n_starts;
    /* Texts of further tokens with a meaning inside a call: "</tool_call>", "[ARGS]". If the vocabulary has such a
     * token, push() gets its text with is_token set, also of a control token. */
    const char *tokens[CALL_TOKENS_MAX];
    size_t n_tokens;
    size_t parser_bytes;
    /* @start: index into starts. @tools: may be NULL */
    void (*begin)(void *parser, size_t start, const CallTools *tools);
    /* Takes bytes; @is_token: they are a whole token of `tokens` or `starts`, and no ordinary text. Sets *n_takenp for
     * CALL_OVER and CALL_IS_TEXT. */
    CallState (*push)(void *parser, const char *text, size_t len_bytes, bool is_token, size_t *n_takenp,
                      CallPieceFn *fn, void *arg);
    /* The answer has ended. Returns CALL_OVER or CALL_IS_TEXT. */
    CallState (*finish)(void *parser, CallPieceFn *fn, void *arg);
    void (*deinit)(void *parser); /* also after begin() alone */
} CallFormat;

#endif
