// SPDX-License-Identifier: Apache-2.0
/* What builder and matcher know of a grammar, and the parts of a builder. */
#ifndef COORDGEN_TEXT_GRAMMAR_PRIVATE_H
#define COORDGEN_TEXT_GRAMMAR_PRIVATE_H

#include <stdatomic.h>

#include "base/err.h"
#include "text/grammar/byte_regex.h"
#include "text/grammar/grammar_parts.h"
#include "text/grammar/rule_graph.h"

struct Grammar {
    _Atomic uint32_t n_refs;
    ByteRegex *regex; /* the lexemes' expressions; matchers continue on copies */
    RuleGraph graph;
};

typedef enum PartKind {
    PART_REGEX,     /* a: RegexId. Parts without a rule become one at once. */
    PART_SEQUENCE,  /* a: the first of b parts in the builder's lists */
    PART_CHOICE,    /* as above */
    PART_REPEAT,    /* a: part, min, max */
    PART_UNORDERED, /* as above: the separator, then members; required, repeated */
    PART_AND,       /* a, b: parts */
    PART_NOT,       /* a: part */
    PART_RULE,      /* a: the body, or GRAMMAR_PART_NONE; b: offset of the name */
} PartKind;

typedef struct Part {
    PartKind kind;
    uint32_t a;
    uint32_t b;
    uint32_t min, max;
    uint64_t required, repeated; /* members in any order, as bits */
} Part;

struct GrammarBuilder {
    GrammarLimits limits;
    ByteRegex *regex;
    Part *parts;
    uint32_t n_parts, room_parts;
    GrammarPart *lists;
    uint32_t n_lists, room_lists;
    char *names; /* of rules, each with its NUL */
    size_t n_names, room_names;
    int failure; /* the first one, beside those of regex */
};

/* Adds a part for an expression. */
GrammarPart grammar_part_of_regex(GrammarBuilder *builder, RegexId id);
/* Makes the automata of the rules that root needs. 0; the conditions of grammar_builder_finish(). (grammar_lower.c) */
int grammar_lower(GrammarBuilder *builder, GrammarPart root, RuleDraft *draft, ErrText *err);
/* Makes the expression of a regular part. Errors: grammar_builder_allows_nothing(), and GRAMMAR_E_SYNTAX. */
int grammar_lower_regular(GrammarBuilder *builder, GrammarPart part, RegexId *idp, ErrText *err);

#endif
