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

/* Pairs of marks that a template writes, as a set. The opening mark may be missing: a template that only cuts off the
 * thinking of earlier turns names the closing one alone. */
typedef struct ThinkingPairs {
    uint8_t opens, closes; /* bits of known pairs: the template writes this mark */
} ThinkingPairs;

/* Adds the pairs of a template. */
void thinking_pairs_add(ThinkingPairs *pairs, const ChatMarks *marks);
/* Chooses the pair of a model. */
ThinkingMarks thinking_marks_of(ThinkingPairs pairs, const Tokenizer *tokenizer);
/* Whether marks are tokens of the vocabulary. */
static inline bool thinking_marks_are_tokens(const ThinkingMarks *marks) {
    return marks->open_id != TOKEN_NONE;
}
/* Where a prompt ends. */
typedef enum ThinkingPlace {
    THINKING_BEFORE, /* the model may begin to think */
    THINKING_INSIDE, /* the template has opened the thinking */
    THINKING_BEHIND, /* the template has closed the thinking, which is empty */
    _THINKING_PLACE_N,
} ThinkingPlace;

/* Tells where a prompt ends: which mark the template wrote last, with nothing of its own behind but white space.
 * @own: [len_bytes] 1 where the template wrote the byte. */
ThinkingPlace thinking_place_of(const ThinkingMarks *marks, const char *prompt, const uint8_t *own, size_t len_bytes);

#endif
