// SPDX-License-Identifier: Apache-2.0
/* The formats in which models write calls of tools, as data that parser and grammar share. */
#ifndef COORDGEN_TEXT_CHAT_CALL_SHAPE_H
#define COORDGEN_TEXT_CHAT_CALL_SHAPE_H

#include "text/chat/call_format.h"

/* A call is an object, {"name": NAME, "arguments": {...}}, or a plain name, an infix and the arguments. */
typedef struct CallShape {
    CallFormat format;         /* what answer_parts needs */
    const char *start;         /* the mark that begins a call or a list; NULL: calls begin the answer */
    const char *pad;           /* white space around an object, as the template writes it */
    const char *end;           /* the mark behind a call or a list; NULL: none */
    bool is_list;              /* one start mark, then [CALL, CALL] */
    bool has_id;               /* an id of nine letters and digits may follow the arguments */
    const char *joint;         /* between calls that share a start mark */
    const char *wrapper;       /* key of an object around each call; NULL: none */
    const char *name_key;      /* NULL: the name is plain text */
    const char *arguments_key; /* as above */
    const char *infix;         /* between a plain name and the arguments */
    const char *id_infix;      /* between a plain name and an id, which the infix follows; NULL: none */
    /* What a template with this format writes of the call in call_formats.c; NULL: it does not write calls. */
    const char *evidence;
    const char *source_mark; /* a text in the source of templates with this format; NULL: evidence alone counts */
    const char *source_not;  /* a text that such templates do not have */
    const char *token_mark;  /* a token that the vocabulary must have; NULL: any vocabulary */
} CallShape;

#endif
