// SPDX-License-Identifier: Apache-2.0
/* The marks around a model's thinking, as its chat template and vocabulary have them. See docs/answer-parts.md. */
#ifndef COORDGEN_TEXT_CHAT_THINKING_MARKS_H
#define COORDGEN_TEXT_CHAT_THINKING_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/chat/chat_marks.h"
#include "text/tokenizer/tokenizer.h"

/* A pair of marks. Texts are static. */
typedef struct ThinkingMarks {
    const char *open, *close;   /* "<think>", "</think>"; NULL: the model has no thinking */
    uint32_t open_id, close_id; /* tokens of these texts, which alone count as marks; TOKEN_NONE: marks are text */
} ThinkingMarks;

/* Finds the pair of a model. @marks: of its chat template; NULL: it has none. */
ThinkingMarks thinking_marks_find(const ChatMarks *marks, const Tokenizer *tokenizer);
/* Whether a prompt ends inside the thinking: its last mark is the opening one, and white space alone follows it.
 * @own: [len_bytes] 1 where the template wrote the byte; only there are marks looked for. */
bool thinking_is_open(const ThinkingMarks *marks, const char *prompt, const uint8_t *own, size_t len_bytes);

#endif
