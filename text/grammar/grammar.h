// SPDX-License-Identifier: Apache-2.0
/* A grammar: the texts that an answer may have. Immutable, so any number of threads and matchers may use it. Made by
 * text/grammar/grammar_builder.h, followed byte by byte by text/grammar/grammar_matcher.h. */
#ifndef COORDGEN_TEXT_GRAMMAR_H
#define COORDGEN_TEXT_GRAMMAR_H

#include <stddef.h>

#include "base/cleanup.h"

/* Conditions of the whole room. */
enum {
    GRAMMAR_E_SYNTAX = 1,      /* the source is malformed; the error says where */
    GRAMMAR_E_UNSUPPORTED = 2, /* the source asks for what cannot be followed; the error names it */
    GRAMMAR_E_TOO_COMPLEX = 3, /* a limit on memory, parts or fuel is reached */
    GRAMMAR_E_NOTHING = 4,     /* no text fits the grammar */
};

typedef struct Grammar Grammar;

Grammar *grammar_ref(Grammar *grammar);
Grammar *grammar_unref(Grammar *grammar); /* NULL is allowed; returns NULL */
DEFINE_CLEANUP(Grammar, grammar_unref)
size_t grammar_memory_bytes(const Grammar *grammar);

#endif
