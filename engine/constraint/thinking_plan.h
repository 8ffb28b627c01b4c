// SPDX-License-Identifier: Apache-2.0
/* The plan of an answer that may begin with thinking: its tokens are counted, and what follows begins behind it. */
#ifndef COORDGEN_ENGINE_THINKING_PLAN_H
#define COORDGEN_ENGINE_THINKING_PLAN_H

#include "engine/constraint/constraint.h"
#include "text/chat/thinking_marks.h"

#define THINKING_NO_LIMIT UINT32_MAX

/* Puts thinking before the segment `next`, with which the answer would begin. The plan's entries are numbered as
 * ThinkingPlace: behind a prompt that ends before the thinking, the model may open it by its token; inside, it must end
 * it, and the end mark is forced behind tokens_max tokens. @tokens_max: 0: no thinking begins. Marks that are text
 * cannot be told apart from an answer's text, so that thinking begins only in a prompt that has opened it. A model
 * without marks gets nothing. 0; CONSTRAINT_E_TOO_COMPLEX, -errno, with a text. */
int thinking_plan_add(ConstraintPlan *plan, const ThinkingMarks *marks, const Tokenizer *tokenizer, uint32_t tokens_max,
                      uint32_t next, ErrText *err);
/* Adds a segment of any text, for answers that only thinking limits. Returns its number. */
uint32_t thinking_plan_add_any(ConstraintPlan *plan, const ThinkingMarks *marks);

#endif
