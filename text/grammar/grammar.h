// SPDX-License-Identifier: Apache-2.0
/* A grammar: the texts that an answer may have. Immutable, so any number of threads and matchers may use it. Made by
 * text/grammar/grammar_builder.h, followed byte by byte by text/grammar/grammar_matcher.h. */
#ifndef COORDGEN_TEXT_GRAMMAR_H
#define COORDGEN_TEXT_GRAMMAR_H

#include <stddef.h>

#include "base/cleanup.h"
#include "text/grammar/grammar_error.h"

typedef struct Grammar Grammar;

Grammar *grammar_ref(Grammar *grammar);
Grammar *grammar_unref(Grammar *grammar); /* NULL is allowed; returns NULL */
DEFINE_CLEANUP(Grammar, grammar_unref)
size_t grammar_memory_bytes(const Grammar *grammar);

#endif
