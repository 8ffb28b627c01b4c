// SPDX-License-Identifier: Apache-2.0
/* A parsed template: a tree of nodes, which nothing changes after jinja_parse(). */
#ifndef COORDGEN_TEXT_JINJA_TREE_H
#define COORDGEN_TEXT_JINJA_TREE_H

#include "text/jinja/values/jinja_value.h"

/* The comments name the members of JinjaNode that each kind uses. */
typedef enum JinjaKind {
    /* statements */
    JINJA_NODE_DATA,         /* text */
    JINJA_NODE_PRINT,        /* a */
    JINJA_NODE_FOR,          /* a: target, b: iterable, c: condition or NULL; bodies[0], bodies[1]: else */
    JINJA_NODE_IF,           /* items[i] is the condition of bodies[i]; a body without a condition is "else" */
    JINJA_NODE_SET,          /* a: target, b: value */
    JINJA_NODE_SET_BLOCK,    /* a: target, b: filters of JINJA_NODE_HOLE or NULL; bodies[0] */
    JINJA_NODE_MACRO,        /* name, macro, bodies[0] */
    JINJA_NODE_CALL_BLOCK,   /* a: call, macro, bodies[0] */
    JINJA_NODE_FILTER_BLOCK, /* b: filters of JINJA_NODE_HOLE; bodies[0] */
    JINJA_NODE_WITH,         /* items: target, value by turns; bodies[0] */
    JINJA_NODE_SCOPE,        /* bodies[0] with variables of its own: the tag "generation" */
    JINJA_NODE_BLOCK,        /* bodies[0], which sees only the variables of the top */
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE,
    /* expressions */
    JINJA_NODE_CONST, /* value */
    JINJA_NODE_HOLE,  /* the text of the block that is filtered */
    JINJA_NODE_NAME,  /* name; as a name of an argument: text */
    JINJA_NODE_LIST,  /* items */
    JINJA_NODE_TUPLE, /* items */
    JINJA_NODE_DICT,  /* items: key, value by turns */
    JINJA_NODE_NOT,   /* a */
    JINJA_NODE_NEGATE,
    JINJA_NODE_PLUS,
    JINJA_NODE_AND, /* a, b */
    JINJA_NODE_OR,
    JINJA_NODE_BINARY,    /* a, b, op */
    JINJA_NODE_CONCAT,    /* items */
    JINJA_NODE_COMPARE,   /* a, then items of JINJA_NODE_OPERAND */
    JINJA_NODE_OPERAND,   /* op, a: the right side of a comparison */
    JINJA_NODE_IF_ELSE,   /* a if b else c; c NULL: undefined */
    JINJA_NODE_ATTRIBUTE, /* a.text; as a target: attribute of a namespace */
    JINJA_NODE_ITEM,      /* a[b] */
    JINJA_NODE_SLICE,     /* a[items[0]:items[1]:items[2]], each may be NULL */
    JINJA_NODE_CALL,      /* a(arguments) */
    JINJA_NODE_FILTER,    /* a|text(arguments), builtin */
    JINJA_NODE_TEST,      /* a is text(arguments), builtin */
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

typedef struct JinjaTemplate JinjaTemplate;
typedef struct JinjaNode JinjaNode;

typedef struct JinjaBody {
    JinjaNode **nodes;
    uint32_t n;
} JinjaBody;

typedef struct JinjaArgumentNodes {
    JinjaNode **items; /* [n] */
    uint32_t n;
    const JinjaText **names; /* [n_named] */
    JinjaNode **named;       /* [n_named] */
    uint32_t n_named;
    JinjaNode *list, *dict; /* *list, **dict; NULL: none */
} JinjaArgumentNodes;

/* The signature of a macro, or of a call block, whose body is called as a macro is. */
typedef struct JinjaMacroNode {
    JinjaNode **names;    /* [n] parameters */
    JinjaNode **defaults; /* [n_defaults] of the last parameters */
    uint32_t n, n_defaults;
    bool uses_caller, uses_kwargs, uses_varargs;
} JinjaMacroNode;

struct JinjaNode {
    JinjaKind kind;
    uint32_t line;
    uint32_t depth; /* levels of expressions in this one */
    uint32_t name;  /* index into JinjaTemplate.names */
    JinjaOperator op;
    bool is_recursive; /* "for" */
    uint32_t n_items, n_bodies;
    JinjaNode *a, *b, *c;
    JinjaNode **items;
    JinjaBody *bodies;
    const JinjaText *text;
    JinjaValue value;
    const JinjaArgumentNodes *arguments; /* NULL: none */
    const JinjaMacroNode *macro;
    const JinjaBuiltin *builtin; /* filter, test; NULL: not known */
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

/* Number of a name; UINT32_MAX: the template does not use the name. */
uint32_t jinja_template_name(const JinjaTemplate *template, const char *name, size_t len_bytes);

#endif
