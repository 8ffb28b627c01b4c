// SPDX-License-Identifier: Apache-2.0
/* Parses a template's text into a tree. */
#ifndef COORDGEN_TEXT_JINJA_STATEMENT_H
#define COORDGEN_TEXT_JINJA_STATEMENT_H

#include "text/jinja/syntax/jinja_parser.h"

/* 0, JINJA_E_SYNTAX, JINJA_E_LIMIT, -ENOMEM. */
int jinja_parse(JinjaTemplate *template, const char *source, size_t len_bytes, ErrText *err);

#endif
