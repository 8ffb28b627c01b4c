// SPDX-License-Identifier: Apache-2.0
/* Reads calls of tools byte by byte, from the start mark on. Name and arguments are given out as they arrive if a
 * constraint makes the calls well-formed; else a call comes out when it is whole, or stays text. */
#ifndef COORDGEN_TEXT_CHAT_CALL_PARSER_H
#define COORDGEN_TEXT_CHAT_CALL_PARSER_H

#include "base/strings/str_buf.h"
#include "text/chat/call_shape.h"
#include "text/chat/call_tools.h"

#define CALL_KEY_BYTES_MAX 64 /* a key or infix; longer ones are none of a call */
#define CALL_ID_BYTES_MAX 64

/* All fields are private. */
typedef struct CallParser {
    const CallShape *shape;
    const CallTools *tools; /* NULL: any names */
    int stage;
    bool in_list, in_wrapper;
    bool has_name, has_arguments;
    bool is_given; /* the first piece of this call is out */
    uint32_t n_calls;
    char name[CALL_TOOLS_NAME_BYTES_MAX + 1];
    char id[CALL_ID_BYTES_MAX + 1];
    char key[CALL_KEY_BYTES_MAX + 1];
    size_t name_bytes, id_bytes, key_bytes;
    uint32_t depth; /* of the value that is read */
    bool in_string, is_escaped;
    size_t n_matched; /* bytes of the end mark */
    StrBuf early;     /* arguments that came before their name */
    StrBuf held;      /* pieces of calls that nothing makes well-formed: NAME NUL ID NUL ARGUMENTS NUL */
} CallParser;

void call_parser_begin(CallParser *parser, const CallShape *shape, const CallTools *tools);
/* As in CallFormat. */
CallState call_parser_push(void *parser, const char *text, size_t len_bytes, bool is_token, size_t *n_takenp,
                           CallPieceFn *fn, void *arg);
CallState call_parser_finish(void *parser, CallPieceFn *fn, void *arg);
void call_parser_deinit(void *parser);

#endif
