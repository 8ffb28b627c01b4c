// SPDX-License-Identifier: Apache-2.0
/* Splits an answer into text, thinking and tool calls while it is written. Only what may still become a mark is held
 * back. See docs/answer-parts.md. */
#ifndef COORDGEN_TEXT_CHAT_ANSWER_PARTS_H
#define COORDGEN_TEXT_CHAT_ANSWER_PARTS_H

#include "base/cleanup.h"
#include "text/chat/call_format.h"
#include "text/chat/thinking_marks.h"
#include "text/tokenizer/tokenizer.h"

typedef enum AnswerPart {
    ANSWER_TEXT,
    ANSWER_REASONING, /* the thinking, without its marks and the white space beside them */
    ANSWER_CALL,
} AnswerPart;

typedef struct AnswerPiece { /* valid during the callback */
    AnswerPart part;
    const char *text; /* whole UTF-8 sequences, as far as the input had them; not of calls */
    size_t len_bytes;
    const CallPiece *call; /* ANSWER_CALL; else NULL */
} AnswerPiece;

typedef void AnswerPieceFn(void *arg, const AnswerPiece *piece);

/* What an answer may hold beside text. */
typedef struct AnswerFormat {
    ThinkingMarks thinking;  /* without texts: no thinking */
    bool is_thinking;        /* the prompt ends inside the thinking */
    bool is_behind;          /* the prompt ends behind the thinking: white space that comes first stands beside it */
    const CallFormat *calls; /* NULL: no calls */
    const CallTools *tools;  /* for the parser; outlives the splitter; may be NULL */
} AnswerFormat;

/* Whether there is anything to split. */
static inline bool answer_format_splits(const AnswerFormat *format) {
    return format->thinking.open || format->calls;
}

typedef struct AnswerParts AnswerParts; /* one thread */

/* 0, -ENOMEM. */
int answer_parts_new(AnswerParts **partsp, const Tokenizer *tokenizer, const AnswerFormat *format);
AnswerParts *answer_parts_free(AnswerParts *parts);
DEFINE_CLEANUP(AnswerParts, answer_parts_free)

/* Whether a token is a mark: it goes to answer_parts_token() and its text to nobody else. */
bool answer_parts_has_token(const AnswerParts *parts, uint32_t token);
/* Take the next text or mark, and give out pieces. 0, -ENOMEM. */
int answer_parts_token(AnswerParts *parts, uint32_t token, AnswerPieceFn *fn, void *arg);
int answer_parts_text(AnswerParts *parts, const char *text, size_t len_bytes, AnswerPieceFn *fn, void *arg);
/* Gives out what is held back, at the end of the answer. 0, -ENOMEM. */
int answer_parts_finish(AnswerParts *parts, AnswerPieceFn *fn, void *arg);

bool answer_parts_is_thinking(const AnswerParts *parts); /* the next text is thinking, or its end */
uint32_t answer_parts_n_calls(const AnswerParts *parts); /* calls that have begun */

#endif
