// SPDX-License-Identifier: Apache-2.0
/* Statements, and calls of macros, loops and builtins. */
#ifndef COORDGEN_TEXT_JINJA_EVAL_H
#define COORDGEN_TEXT_JINJA_EVAL_H

#include "text/jinja/builtins/jinja_builtin.h"
#include "text/jinja/jinja_scope.h"

typedef enum JinjaFlow {
    JINJA_GO_ON,
    JINJA_BREAK,    /* the loop is left */
    JINJA_CONTINUE, /* the next turn of the loop begins */
} JinjaFlow;

JinjaFlow jinja_run_body(JinjaRun *run, JinjaScope *scope, const JinjaBody *body);
/* JinjaRun.call: expressions call by this pointer, because statements need expressions. */
JinjaValue jinja_call(JinjaRun *run, JinjaValue callee, const JinjaArguments *arguments);

#endif
