// SPDX-License-Identifier: Apache-2.0
/* Evaluation of a tree: jinja_eval.c has statements, scopes and calls, jinja_evaluate.c expressions. */
#ifndef COORDGEN_TEXT_JINJA_EVAL_H
#define COORDGEN_TEXT_JINJA_EVAL_H

#include "text/jinja/jinja_builtin.h"
#include "text/jinja/jinja_tree.h"

typedef struct JinjaBinding {
    struct JinjaBinding *next;
    uint32_t name;
    JinjaValue value; /* JINJA_MISSING: bound in an earlier turn of the loop only */
} JinjaBinding;

/* Variables of a body. JinjaRun.globals has those of the top. */
struct JinjaScope {
    JinjaScope *parent; /* NULL: the top */
    JinjaBinding *bindings;
    bool is_captured; /* a macro was made in the scope and may read its variables later */
};

struct JinjaLoop {
    JinjaList items;
    uint32_t index0, depth0;
    const JinjaNode *node;
    JinjaScope *scope;  /* the scope that the loop stands in */
    JinjaValue changed; /* arguments of the last changed() */
};

struct JinjaMacro {
    const JinjaNode *node;
    JinjaScope *scope;
};

typedef enum JinjaFlow {
    JINJA_GO_ON,
    JINJA_BREAK,    /* the loop is left */
    JINJA_CONTINUE, /* the next turn of the loop begins */
} JinjaFlow;

JinjaFlow jinja_run_body(JinjaRun *run, JinjaScope *scope, const JinjaBody *body);
JinjaValue jinja_evaluate(JinjaRun *run, JinjaScope *scope, const JinjaNode *node);
JinjaValue jinja_call(JinjaRun *run, JinjaValue callee, const JinjaArguments *arguments);
JinjaValue jinja_lookup(const JinjaRun *run, const JinjaScope *scope, uint32_t name);
/* Applies filters to a block's text, which stands for JINJA_NODE_HOLE. */
JinjaValue jinja_filter_text(JinjaRun *run, JinjaScope *scope, const JinjaNode *filters, JinjaValue hole);
/* Evaluates the arguments of a call. extra is one more named argument; NULL: none. nodes NULL: no arguments. */
JinjaArguments jinja_evaluate_arguments(JinjaRun *run, JinjaScope *scope, const JinjaArgumentNodes *nodes,
                                        const JinjaText *extra_name, const JinjaValue *extra);

#endif
