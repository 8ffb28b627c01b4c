// SPDX-License-Identifier: Apache-2.0
/* Evaluation: jinja_eval.c has statements, scopes and calls, jinja_evaluate.c expressions. */
#ifndef COORDGEN_TEXT_JINJA_EVAL_H
#define COORDGEN_TEXT_JINJA_EVAL_H

#include "text/jinja/jinja_builtin.h"
#include "text/jinja/jinja_tree.h"

typedef struct JinjaBinding {
    struct JinjaBinding *next;
    uint32_t name;
    JinjaValue value; /* JINJA_MISSING: of an earlier turn of the loop */
} JinjaBinding;

/* Variables of a body; those of the top are in JinjaRun.globals. */
struct JinjaScope {
    JinjaScope *parent; /* NULL: the top */
    JinjaBinding *bindings;
    bool is_captured; /* a macro that was made in it may read it later */
};

struct JinjaLoop {
    JinjaList items;
    uint32_t index0, depth0;
    const JinjaNode *node;
    JinjaScope *scope;  /* that the loop stands in */
    JinjaValue changed; /* what changed() was asked last */
};

struct JinjaMacro {
    const JinjaNode *node;
    JinjaScope *scope;
};

/* Results of statements, beside errors: the loop is left, or its next turn begins. */
enum {
    JINJA_BREAK = 100,
    JINJA_CONTINUE = 101,
};

int jinja_run_body(JinjaRun *run, JinjaScope *scope, const JinjaBody *body);
int jinja_evaluate(JinjaRun *run, JinjaScope *scope, const JinjaNode *node, JinjaValue *valuep);
int jinja_bind(JinjaRun *run, JinjaScope *scope, uint32_t name, JinjaValue value);
JinjaValue jinja_lookup(const JinjaRun *run, const JinjaScope *scope, uint32_t name);
/* hole: what stands for JINJA_NODE_HOLE in filters of a block. */
int jinja_filter_text(JinjaRun *run, JinjaScope *scope, const JinjaNode *filters, JinjaValue hole, JinjaValue *valuep);
/* Values of the arguments of a call. */
int jinja_evaluate_arguments(JinjaRun *run, JinjaScope *scope, const JinjaArgumentNodes *nodes,
                             JinjaArguments *arguments, uint32_t n_more_named);

#endif
