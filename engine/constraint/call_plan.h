// SPDX-License-Identifier: Apache-2.0
/* The plan of an answer that may or must call tools. */
#ifndef COORDGEN_ENGINE_CALL_PLAN_H
#define COORDGEN_ENGINE_CALL_PLAN_H

#include "engine/constraint/constraint.h"
#include "text/chat/call_grammar.h"

/* Adds the segments of a format to a plan; *firstp: the first of them. Marks that are tokens of the vocabulary become
 * triggers and TOKENS segments, other marks stand in grammars. From a start mark on, a call fits its tool's schema.
 * 0; GRAMMAR_E_*, with a text that names tool and JSON pointer; -errno. Takes as long as compiling the schemas. */
int call_plan_add(ConstraintPlan *plan, const CallShape *shape, const CallTools *tools, const Tokenizer *tokenizer,
                  const GrammarLimits *limits, uint32_t *firstp, ErrText *err);

#endif
