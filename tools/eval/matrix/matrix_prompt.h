// SPDX-License-Identifier: Apache-2.0
/* What the cells of the matrix answer: a prompt, and a schema for those whose answers are constrained. */
#ifndef COORDGEN_EVAL_MATRIX_PROMPT_H
#define COORDGEN_EVAL_MATRIX_PROMPT_H

#include "engine/constraint/constraint.h"
#include "engine/engine.h"
#include "text/tokenizer/tokenizer.h"

/* Tokens of the prompts. Both end 18 rows behind a page of the cache and a chunk of 32. The brief one is for runs that
 * would take minutes. */
#define PROMPT_WHOLE 530
#define PROMPT_BRIEF 82

/* Fills the list with PROMPT_WHOLE tokens, unless it has them. 0 or -errno, with a text. */
int matrix_prompt(const Tokenizer *tokenizer, TokenList *prompt, ErrText *err);
/* Makes the constraint of a schema for an engine's vocabulary. The caller frees it. 0, -EPROTO or -errno, with a
 * text. */
int matrix_schema(Engine *engine, Constraint **constraintp, ErrText *err);

#endif
