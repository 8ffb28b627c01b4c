// SPDX-License-Identifier: Apache-2.0
/* A template's text becomes a tree: jinja_parser.c has statements, jinja_expression.c expressions, jinja_operand.c
 * their parts. */
#ifndef COORDGEN_TEXT_JINJA_PARSER_H
#define COORDGEN_TEXT_JINJA_PARSER_H

#include "text/jinja/jinja_lexer.h"
#include "text/jinja/jinja_tree.h"

#define JINJA_TREE_DEPTH_MAX 200 /* of expressions: what a + b + ... nests too */

typedef struct JinjaNodeList {
    JinjaNode **items;
    uint32_t n, room;
} JinjaNodeList;

typedef struct JinjaParser {
    JinjaTemplate *template;
    JinjaArena *arena;
    JinjaLexer lexer;
    JinjaToken now, next; /* next: looked at already, if has_next */
    bool has_next;
    uint32_t nesting;    /* brackets, blocks, unary operators */
    uint32_t loop_depth; /* for "break" */
    uint32_t names_room;
    uint32_t *name_slots; /* index + 1 */
    uint32_t n_name_slots;
    HashKey key;
    uint64_t used_specials; /* bits of JINJA_NAME_*: names seen since the macro began */
    ErrText *err;
} JinjaParser;

int jinja_parse(JinjaTemplate *template, const char *source, size_t len_bytes, ErrText *err);

/* Shared by these files. Errors: JINJA_E_SYNTAX, JINJA_E_LIMIT, -ENOMEM. */
int jinja_parser_fail(JinjaParser *parser, const char *format, ...) __attribute__((format(printf, 2, 3)));
int jinja_parser_fail_memory(JinjaParser *parser);
int jinja_parser_step(JinjaParser *parser); /* to the next word */
int jinja_parser_look(JinjaParser *parser); /* parser->next */
bool jinja_parser_sees(const JinjaParser *parser, const char *op);
bool jinja_parser_sees_name(const JinjaParser *parser, const char *name);
int jinja_parser_skip(JinjaParser *parser, const char *op, bool *skippedp);
int jinja_parser_skip_name(JinjaParser *parser, const char *name, bool *skippedp);
int jinja_parser_expect(JinjaParser *parser, const char *op);
int jinja_parser_enter(JinjaParser *parser);
void jinja_parser_leave(JinjaParser *parser);
int jinja_parser_name(JinjaParser *parser, const char *data, size_t len_bytes, uint32_t *namep);
int jinja_parser_name_text(JinjaParser *parser, const JinjaText **textp); /* of the name that is seen, and past it */
int jinja_node_new(JinjaParser *parser, JinjaKind kind, uint32_t line, JinjaNode **nodep);
int jinja_node_add(JinjaParser *parser, JinjaNodeList *list, JinjaNode *node);
/* What is below it: its depth follows, which is bounded. */
int jinja_node_close(JinjaParser *parser, JinjaNode *node);

/* A literal, a name, brackets, with what stands behind it. */
int jinja_parse_operand(JinjaParser *parser, JinjaNode **nodep);
int jinja_parse_name(JinjaParser *parser, JinjaNode **nodep);
int jinja_parse_expression(JinjaParser *parser, bool with_condition, JinjaNode **nodep);
/* An expression, or several with commas between: a tuple. */
int jinja_parse_tuple(JinjaParser *parser, bool with_condition, bool in_brackets, JinjaNode **nodep);
/* What is assigned to. for_loop: it ends before "in". */
int jinja_parse_target(JinjaParser *parser, bool for_loop, bool with_namespace, JinjaNode **nodep);
/* Filters behind each other, of what is in base; the first without a "|" if is_inline. */
int jinja_parse_filters(JinjaParser *parser, JinjaNode *base, bool is_inline, JinjaNode **nodep);
int jinja_parse_signature(JinjaParser *parser, JinjaMacroNode *macro);

#endif
