// SPDX-License-Identifier: Apache-2.0
/* A parsed template: a tree of nodes, which nothing changes after jinja_parse(). */
#ifndef COORDGEN_TEXT_JINJA_TREE_H
#define COORDGEN_TEXT_JINJA_TREE_H

#include "base/strings/text_index.h"
#include "text/jinja/values/jinja_value.h"

/* The comments name the members of JinjaNode that each kind uses. */
typedef enum JinjaKind {
    /* statements */
    JINJA_NODE_DATA,  /* text */
    JINJA_NODE_PRINT, /* a */
    JINJA_NODE_BODY,  /* items: statements */
    JINJA_NODE_FOR,   /* a: target, b: iterable, c: condition or NULL; items: body, body of "else" */
    JINJA_NODE_IF,    /* items: condition, body by turns; a last body without a condition is "else" */
    JINJA_NODE_SET,   /* a: target, b: value */
    JINJA_NODE_MACRO, /* name, a: body; items: parameters, of which each has its default or NULL in b */
    JINJA_NODE_SCOPE, /* a: body with variables of its own: the tag "generation" */
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE,
    /* expressions */
    JINJA_NODE_CONST, /* value */
    JINJA_NODE_NAME,  /* name */
    JINJA_NODE_LIST,  /* items */
    JINJA_NODE_TUPLE, /* items */
    JINJA_NODE_DICT,  /* items: key, value by turns */
    JINJA_NODE_NOT,   /* a */
    JINJA_NODE_NEGATE,
    JINJA_NODE_AND, /* a, b */
    JINJA_NODE_OR,
    JINJA_NODE_BINARY,    /* a, b, op */
    JINJA_NODE_CONCAT,    /* items */
    JINJA_NODE_IF_ELSE,   /* a if b else c; c NULL: undefined */
    JINJA_NODE_ATTRIBUTE, /* a.text; as a target: attribute of a namespace */
    JINJA_NODE_ITEM,      /* a[b] */
    JINJA_NODE_SLICE,     /* a[items[0]:items[1]:items[2]], each may be NULL */
    JINJA_NODE_CALL,      /* a(items) */
    JINJA_NODE_FILTER,    /* a|text(items), builtin */
    JINJA_NODE_TEST,      /* a is text(items), builtin */
    JINJA_NODE_NAMED,     /* text=a, among the items of a call */
    JINJA_NODE_STAR,      /* *a, among the items of a call */
    JINJA_NODE_CAPTURE,   /* body a as a text: what a block of "set" or "filter" is made of */
} JinjaKind;

typedef enum JinjaOperator {
    JINJA_ADD,
    JINJA_SUBTRACT,
    JINJA_MULTIPLY,
    JINJA_DIVIDE,
    JINJA_FLOOR_DIVIDE,
    JINJA_MODULO,
    JINJA_EQUAL, /* those from here on give a boolean */
    JINJA_NOT_EQUAL,
    JINJA_LESS,
    JINJA_LESS_EQUAL,
    JINJA_GREATER,
    JINJA_GREATER_EQUAL,
    JINJA_IN,
    JINJA_NOT_IN,
} JinjaOperator;

typedef struct JinjaTemplate JinjaTemplate;
typedef struct JinjaNode JinjaNode;

struct JinjaNode {
    JinjaKind kind;
    uint32_t line;
    uint32_t depth; /* levels of expressions in this one */
    uint32_t name;  /* index into JinjaTemplate.names */
    JinjaOperator op;
    uint32_t n_items, items_room;
    JinjaNode *a, *b, *c;
    JinjaNode **items;
    const JinjaText *text;
    JinjaValue value;
    const JinjaBuiltin *builtin; /* filter, test; NULL: not known */
};

#define JINJA_NAME_LOOP 0 /* "loop", which every template has first in its table of names */

struct JinjaTemplate {
    JinjaArena arena;
    const JinjaText **names; /* [n_names] */
    uint32_t n_names;
    TextIndex name_numbers;
    const JinjaNode *body;
    const char *source; /* [source_bytes], in the arena */
    size_t source_bytes;
};

/* Number of a name; UINT32_MAX: the template does not use the name. */
uint32_t jinja_template_name(const JinjaTemplate *template, const char *name, size_t len_bytes);

#endif
