// SPDX-License-Identifier: Apache-2.0
/* Parses expressions. Functions fail as jinja_lexer.h says. */
#ifndef COORDGEN_TEXT_JINJA_EXPRESSION_H
#define COORDGEN_TEXT_JINJA_EXPRESSION_H

#include "text/jinja/syntax/jinja_parser.h"

JinjaNode *jinja_parse_name(JinjaParser *parser);
/* with_condition: "a if b else c" is part of the expression. */
JinjaNode *jinja_parse_expression(JinjaParser *parser, bool with_condition);
/* An expression, or a tuple of several with commas between. */
JinjaNode *jinja_parse_tuple(JinjaParser *parser, bool with_condition, bool in_brackets);
/* Filters behind base. is_inline: the first filter has no "|". */
JinjaNode *jinja_parse_filters(JinjaParser *parser, JinjaNode *base, bool is_inline);

#endif
