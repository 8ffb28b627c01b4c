// SPDX-License-Identifier: Apache-2.0
/* Parses a template's text into a tree: jinja_parser.c statements, jinja_expression.c expressions, jinja_operand.c
 * their operands. Functions fail as jinja_lexer.h says. */
#ifndef COORDGEN_TEXT_JINJA_PARSER_H
#define COORDGEN_TEXT_JINJA_PARSER_H

#include "base/hash_key.h"
#include "text/jinja/jinja_lexer.h"
#include "text/jinja/jinja_tree.h"

#define JINJA_TREE_DEPTH_MAX 200 /* operations inside of each other, which "a + b + ..." nests too */

typedef struct JinjaNodeList {
    JinjaNode **items;
    uint32_t n, room;
} JinjaNodeList;

typedef struct JinjaParser {
    JinjaTemplate *template;
    JinjaLexer lexer;
    JinjaToken now, next; /* next is valid if has_next is set */
    bool has_next;
    uint32_t nesting;    /* brackets, blocks, unary operators */
    uint32_t loop_depth; /* loops around a "break" */
    uint32_t names_room;
    uint32_t *name_slots; /* [n_name_slots] hash table of index + 1 */
    uint32_t n_name_slots;
    HashKey key;
    uint64_t used_specials; /* bits of JINJA_NAME_*: names seen since the macro began */
} JinjaParser;

/* 0, JINJA_E_SYNTAX, JINJA_E_LIMIT, -ENOMEM. */
int jinja_parse(JinjaTemplate *template, const char *source, size_t len_bytes, ErrText *err);

/* Ends the parse with JINJA_E_SYNTAX and a text that begins with the line. */
_Noreturn void jinja_parser_fail(JinjaParser *parser, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Goes to the next token. */
void jinja_parser_step(JinjaParser *parser);
/* Looks at the token behind the current one. */
const JinjaToken *jinja_parser_look(JinjaParser *parser);
bool jinja_token_is(const JinjaToken *token, JinjaTokenKind kind, const char *word);
bool jinja_parser_sees(const JinjaParser *parser, const char *op);
bool jinja_parser_sees_name(const JinjaParser *parser, const char *name);
/* Skips the operator or name if it is the current token. */
bool jinja_parser_skip(JinjaParser *parser, const char *op);
bool jinja_parser_skip_name(JinjaParser *parser, const char *name);
void jinja_parser_expect(JinjaParser *parser, const char *op);
/* Skips a comma before every item but the first; true: another item follows before the closing bracket. */
bool jinja_parser_another(JinjaParser *parser, bool is_first, const char *close);
void jinja_parser_enter(JinjaParser *parser);
void jinja_parser_leave(JinjaParser *parser);
/* Number of the name that is the current token, which is skipped. */
uint32_t jinja_parser_name(JinjaParser *parser);
/* The name that is the current token, which is skipped. */
const JinjaText *jinja_parser_name_text(JinjaParser *parser);

JinjaNode *jinja_node_new(JinjaParser *parser, JinjaKind kind, uint32_t line);
void jinja_node_add(JinjaParser *parser, JinjaNodeList *list, JinjaNode *node);
void jinja_node_set_items(JinjaNode *node, const JinjaNodeList *list);
/* Computes the depth of a node whose parts are complete, and bounds it. Returns the node. */
JinjaNode *jinja_node_close(JinjaParser *parser, JinjaNode *node);

/* A literal, a name, brackets, with what stands behind them. */
JinjaNode *jinja_parse_operand(JinjaParser *parser);
JinjaNode *jinja_parse_name(JinjaParser *parser);
/* with_condition: "a if b else c" is part of the expression. */
JinjaNode *jinja_parse_expression(JinjaParser *parser, bool with_condition);
/* An expression, or a tuple of several with commas between. */
JinjaNode *jinja_parse_tuple(JinjaParser *parser, bool with_condition, bool in_brackets);
/* The target of an assignment. for_loop: the target ends before "in". */
JinjaNode *jinja_parse_target(JinjaParser *parser, bool for_loop, bool with_namespace);
/* Filters behind base. is_inline: the first filter has no "|". */
JinjaNode *jinja_parse_filters(JinjaParser *parser, JinjaNode *base, bool is_inline);
void jinja_parse_signature(JinjaParser *parser, JinjaMacroNode *macro);

#endif
