// SPDX-License-Identifier: Apache-2.0
#include "text/chat/thinking_marks.h"

#include <string.h>

#include "base/min_max.h"

/* Pairs of models whose templates and vocabularies are public: Qwen3, DeepSeek, SmolLM3, GLM, MiniCPM and most others;
 * Magistral; Command; Seed-OSS; MiMo and MiniMax. */
static const struct {
    const char *open, *close;
} known_pairs[] = {
    { "<think>", "</think>" },           { "[THINK]", "[/THINK]" },       { "<|START_THINKING|>", "<|END_THINKING|>" },
    { "<seed:think>", "</seed:think>" }, { "<mm:think>", "</mm:think>" },
};

_Static_assert(ARRAY_LEN(known_pairs) <= 8, "ThinkingPairs has 8 bits");

void thinking_pairs_add(ThinkingPairs *pairs, const ChatMarks *marks) {
    for (size_t i = 0; i < ARRAY_LEN(known_pairs); i++) {
        if (chat_marks_has(marks, known_pairs[i].open, strlen(known_pairs[i].open)))
            pairs->opens |= (uint8_t)(1u << i);
        if (chat_marks_has(marks, known_pairs[i].close, strlen(known_pairs[i].close)))
            pairs->closes |= (uint8_t)(1u << i);
    }
}

/* thinking_marks_of() - the pair that counts in a model's answers
 *
 * A pair counts if the template writes both marks, or if the vocabulary has tokens of both texts that no ordinary text
 * becomes. With such tokens a mark is a token and never a text: an answer that spells "<think>" out stays text. Without
 * them marks are text, and the template must write both, so the model was trained on that text.
 */
ThinkingMarks thinking_marks_of(ThinkingPairs pairs, const Tokenizer *tokenizer) {
    ThinkingMarks found = { .open_id = TOKEN_NONE, .close_id = TOKEN_NONE };

    for (size_t i = 0; i < ARRAY_LEN(known_pairs); i++) {
        const uint32_t open_id = tokenizer_find_added(tokenizer, known_pairs[i].open),
                       close_id = tokenizer_find_added(tokenizer, known_pairs[i].close);
        const bool are_tokens = open_id != TOKEN_NONE && close_id != TOKEN_NONE,
                   is_written = (pairs.opens & pairs.closes) >> i & 1;

        /* A pair in the template goes before one that only the vocabulary has. */
        if (!is_written && !(are_tokens && (!found.open || (pairs.closes >> i & 1))))
            continue;
        found = (ThinkingMarks){ .open = known_pairs[i].open, .close = known_pairs[i].close };
        found.open_id = are_tokens ? open_id : TOKEN_NONE;
        found.close_id = are_tokens ? close_id : TOKEN_NONE;
        if (is_written)
            break;
    }
    return found;
}

static bool is_own(const uint8_t *own, size_t len_bytes) {
    return !memchr(own, 0, len_bytes);
}

bool thinking_is_open(const ThinkingMarks *marks, const char *prompt, const uint8_t *own, size_t len_bytes) {
    const size_t open_bytes = marks->open ? strlen(marks->open) : 0;

    for (size_t i = len_bytes; open_bytes && i-- > 0;) {
        if (!own[i] || strchr(" \t\r\n", prompt[i]))
            continue;
        return i + 1 >= open_bytes && !memcmp(prompt + i + 1 - open_bytes, marks->open, open_bytes) &&
               is_own(own + i + 1 - open_bytes, open_bytes);
    }
    return false;
}
