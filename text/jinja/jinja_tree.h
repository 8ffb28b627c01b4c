// SPDX-License-Identifier: Apache-2.0
/* A parsed template: a tree of nodes, which nothing changes after jinja_parse(). */
#ifndef COORDGEN_TEXT_JINJA_TREE_H
#define COORDGEN_TEXT_JINJA_TREE_H

#include "text/jinja/jinja_value.h"

typedef enum JinjaKind {
    /* statements */
    JINJA_NODE_DATA,         /* text */
    JINJA_NODE_PRINT,        /* a */
    JINJA_NODE_PRINT_ALL,    /* items: of the tag "print" */
    JINJA_NODE_FOR,          /* a: target, b: what is gone through, c: condition or NULL; bodies[0], bodies[1]: else */
    JINJA_NODE_IF,           /* items[i] is the condition of bodies[i]; one body more: else */
    JINJA_NODE_SET,          /* a: target, b: value */
    JINJA_NODE_SET_BLOCK,    /* a: target, b: filters of JINJA_NODE_HOLE or NULL; bodies[0] */
    JINJA_NODE_MACRO,        /* name, macro, bodies[0] */
    JINJA_NODE_CALL_BLOCK,   /* a: call, macro, bodies[0] */
    JINJA_NODE_FILTER_BLOCK, /* b: filters of JINJA_NODE_HOLE; bodies[0] */
    JINJA_NODE_WITH,         /* items: target, value by turns; bodies[0] */
    JINJA_NODE_SCOPE,        /* bodies[0] with variables of its own: generation */
    JINJA_NODE_BLOCK,        /* bodies[0], which sees the variables of the top alone */
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE,
    /* expressions */
    JINJA_NODE_CONST, /* value */
    JINJA_NODE_HOLE,  /* the text of the block that is filtered */
    JINJA_NODE_NAME,  /* name */
    JINJA_NODE_LIST,  /* items */
    JINJA_NODE_TUPLE, /* items */
    JINJA_NODE_DICT,  /* items: key, value by turns */
    JINJA_NODE_NOT,   /* a */
    JINJA_NODE_NEGATE,
    JINJA_NODE_PLUS,
    JINJA_NODE_AND, /* a, b */
    JINJA_NODE_OR,
    JINJA_NODE_BINARY,    /* a, b, operator */
    JINJA_NODE_CONCAT,    /* items */
    JINJA_NODE_COMPARE,   /* a, then operators[i] items[i] */
    JINJA_NODE_IF_ELSE,   /* a if b else c; c NULL: undefined */
    JINJA_NODE_ATTRIBUTE, /* a.text; as a target: of a namespace */
    JINJA_NODE_ITEM,      /* a[b] */
    JINJA_NODE_SLICE,     /* a[items[0]:items[1]:items[2]], each may be NULL */
    JINJA_NODE_CALL,      /* a(arguments) */
    JINJA_NODE_FILTER,    /* a|text(arguments) */
    JINJA_NODE_TEST,      /* a is text(arguments) */
} JinjaKind;

typedef enum JinjaOperator {
    JINJA_ADD,
    JINJA_SUBTRACT,
    JINJA_MULTIPLY,
    JINJA_DIVIDE,
    JINJA_FLOOR_DIVIDE,
    JINJA_MODULO,
    JINJA_POWER,
    JINJA_EQUAL,
    JINJA_NOT_EQUAL,
    JINJA_LESS,
    JINJA_LESS_EQUAL,
    JINJA_GREATER,
    JINJA_GREATER_EQUAL,
    JINJA_IN,
    JINJA_NOT_IN,
} JinjaOperator;

typedef struct JinjaBody {
    JinjaNode **nodes;
    uint32_t n;
} JinjaBody;

typedef struct JinjaArgumentNodes {
    JinjaNode **items;
    uint32_t n;
    const JinjaText **names; /* of named */
    JinjaNode **named;
    uint32_t n_named;
    JinjaNode *list, *dict; /* *list, **dict; NULL: none */
} JinjaArgumentNodes;

/* Of a macro or of a call block, whose text is one too. */
typedef struct JinjaMacroNode {
    uint32_t *names;      /* of its arguments */
    JinjaNode **defaults; /* of the last n_defaults of them */
    uint32_t n, n_defaults;
    bool uses_caller, uses_kwargs, uses_varargs;
} JinjaMacroNode;

struct JinjaNode {
    JinjaKind kind;
    uint32_t line;
    uint32_t depth; /* of expressions in it */
    uint32_t name;
    JinjaOperator op;
    bool is_recursive; /* for */
    uint32_t n_items, n_bodies;
    JinjaNode *a, *b, *c;
    JinjaNode **items;
    JinjaOperator *operators;
    JinjaBody *bodies;
    const JinjaText *text;
    JinjaValue value;
    const JinjaArgumentNodes *arguments;
    const JinjaMacroNode *macro;
    const void *builtin; /* filter: JinjaFilter, test: JinjaTest; NULL: not known */
};

/* Names that every template has, first in its table. */
enum {
    JINJA_NAME_LOOP,
    JINJA_NAME_CALLER,
    JINJA_NAME_KWARGS,
    JINJA_NAME_VARARGS,
    _JINJA_NAME_N,
};

struct JinjaTemplate {
    JinjaArena arena;
    const JinjaText **names; /* [n_names] */
    uint32_t n_names;
    JinjaBody body;
};

/* Number of a name; UINT32_MAX: the template does not use it. */
uint32_t jinja_template_name(const JinjaTemplate *template, const char *name, size_t len_bytes);

#endif
