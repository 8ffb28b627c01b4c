// SPDX-License-Identifier: Apache-2.0
/* Grammars of tool calls: what a model may write between the marks of its format. */
#ifndef COORDGEN_TEXT_CHAT_CALL_GRAMMAR_H
#define COORDGEN_TEXT_CHAT_CALL_GRAMMAR_H

#include "text/chat/call_shape.h"
#include "text/chat/call_tools.h"
#include "text/grammar/grammar_builder.h"

/* Which part of an answer a grammar is for. Marks that are tokens stand outside of grammars. */
typedef enum CallScope {
    CALL_SCOPE_ANSWER,    /* the whole answer, with marks that are text */
    CALL_SCOPE_CALLS,     /* calls alone */
    CALL_SCOPE_JOINT,     /* what may stand between two calls, or nothing */
    CALL_SCOPE_SECTION,   /* from behind the start mark on, with the end mark as text */
    CALL_SCOPE_BODY,      /* from behind the start mark up to the end mark */
    CALL_SCOPE_NAME,      /* a plain name, where one tool alone may be called */
    CALL_SCOPE_ARGUMENTS, /* the arguments of that tool */
} CallScope;

/* Makes the grammar of the calls that the tools' choice allows. 0; GRAMMAR_E_*, with a text that names the tool and the
 * JSON pointer in its parameters; -ENOMEM. A hostile schema takes some 100 ms at most. */
int call_grammar_new(Grammar **grammarp, const CallShape *shape, const CallTools *tools, CallScope scope,
                     const GrammarLimits *limits, ErrText *err);

#endif
