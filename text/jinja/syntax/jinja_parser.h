// SPDX-License-Identifier: Apache-2.0
/* State of a parse: tokens, names and nodes. Functions fail as jinja_lexer.h says. */
#ifndef COORDGEN_TEXT_JINJA_PARSER_H
#define COORDGEN_TEXT_JINJA_PARSER_H

#include "base/strings/printable.h"
#include "text/jinja/syntax/jinja_lexer.h"
#include "text/jinja/syntax/jinja_tree.h"

#define JINJA_TREE_DEPTH_MAX 200 /* operations inside of each other, which "a + b + ..." nests too */

typedef struct JinjaParser {
    JinjaTemplate *template;
    JinjaLexer lexer;
    JinjaToken now, next; /* next is valid if has_next is set */
    bool has_next;
    uint32_t nesting;    /* brackets, blocks, unary operators */
    uint32_t loop_depth; /* loops that a "break" may leave */
    uint32_t names_room;
} JinjaParser;

/* Ends the parse with JINJA_E_SYNTAX and a text that begins with the line. */
_Noreturn void jinja_parser_fail(JinjaParser *parser, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the parse with an error that names the expected and the current token. */
_Noreturn void jinja_parser_fail_expected(JinjaParser *parser, const char *what);
/* The token as an error shows it. */
const char *jinja_token_shown(const JinjaToken *token, Printable *shown);
/* Goes to the next token. */
void jinja_parser_step(JinjaParser *parser);
/* Looks at the token behind the current one. */
const JinjaToken *jinja_parser_look(JinjaParser *parser);
bool jinja_token_is(const JinjaToken *token, JinjaTokenKind kind, const char *word);
bool jinja_parser_sees(const JinjaParser *parser, const char *op);
bool jinja_parser_sees_name(const JinjaParser *parser, const char *name);
/* names: several, with spaces between. */
bool jinja_parser_sees_one_of(const JinjaParser *parser, const char *names);
/* Skips the operator or name if it is the current token. */
bool jinja_parser_skip(JinjaParser *parser, const char *op);
bool jinja_parser_skip_name(JinjaParser *parser, const char *name);
void jinja_parser_expect(JinjaParser *parser, const char *op);
/* Skips a comma before every item but the first; true: another item follows before the closing bracket. */
bool jinja_parser_another(JinjaParser *parser, bool is_first, const char *close);
void jinja_parser_enter(JinjaParser *parser);
void jinja_parser_leave(JinjaParser *parser);
/* Number of a name, which is new or known. */
uint32_t jinja_parser_name_number(JinjaParser *parser, const char *data, size_t len_bytes);
/* Number of the name that is the current token, which is skipped. */
uint32_t jinja_parser_name(JinjaParser *parser);
/* The name that is the current token, which is skipped. */
const JinjaText *jinja_parser_name_text(JinjaParser *parser);

JinjaNode *jinja_node_new(JinjaParser *parser, JinjaKind kind, uint32_t line);
/* Adds an item to a node. */
void jinja_node_add(JinjaParser *parser, JinjaNode *node, JinjaNode *item);
/* Computes the depth of a node whose parts are complete, and bounds it. Returns the node. */
JinjaNode *jinja_node_close(JinjaParser *parser, JinjaNode *node);

#endif
