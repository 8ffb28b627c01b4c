// SPDX-License-Identifier: Apache-2.0
/* Grammars in GBNF, as llama.cpp writes them. */
#ifndef COORDGEN_TEXT_GBNF_H
#define COORDGEN_TEXT_GBNF_H

#include "text/grammar/grammar_builder.h"

/* Reads the rules of a text, and returns the rule "root" as *rootp. Rules may be recursive in any way. Tokens by name
 * or number (<think>, <[42]>) are refused. 0; GRAMMAR_E_SYNTAX, GRAMMAR_E_UNSUPPORTED with the line;
 * GRAMMAR_E_TOO_COMPLEX; -ENOMEM. */
int gbnf_parse(GrammarBuilder *builder, const char *text, size_t n_bytes, GrammarPart *rootp, ErrText *err);

#endif
