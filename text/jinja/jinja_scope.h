// SPDX-License-Identifier: Apache-2.0
/* Variables of bodies, and the loops and macros that a template may get as values. */
#ifndef COORDGEN_TEXT_JINJA_SCOPE_H
#define COORDGEN_TEXT_JINJA_SCOPE_H

#include "text/jinja/syntax/jinja_tree.h"
#include "text/jinja/values/jinja_run.h"

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
    uint32_t index0;
};

struct JinjaMacro {
    const JinjaNode *node;
    JinjaScope *scope;
};

JinjaScope *jinja_scope_new(JinjaRun *run, JinjaScope *parent);
/* Clears the variables for the next turn of a loop, in the same memory unless a macro still reads it. */
JinjaScope *jinja_scope_renew(JinjaRun *run, JinjaScope *scope);
void jinja_bind(JinjaRun *run, JinjaScope *scope, uint32_t name, JinjaValue value);
/* JINJA_MISSING: nothing is bound to the name. */
JinjaValue jinja_lookup(JinjaRun *run, const JinjaScope *scope, uint32_t name);

#endif
