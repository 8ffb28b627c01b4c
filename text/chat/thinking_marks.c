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

/* Whether a mark ends at a place, in the template's own bytes. */
static bool ends_with(const char *prompt, const uint8_t *own, size_t len_bytes, const char *mark) {
    const size_t n = strlen(mark);

    return len_bytes >= n && !memcmp(prompt + len_bytes - n, mark, n) && !memchr(own + len_bytes - n, 0, n);
}

ThinkingPlace thinking_place_of(const ThinkingMarks *marks, const char *prompt, const uint8_t *own, size_t len_bytes) {
    if (!marks->open)
        return THINKING_BEFORE;
    while (len_bytes && (!own[len_bytes - 1] || strchr(" \t\r\n", prompt[len_bytes - 1])))
        len_bytes--;
    return ends_with(prompt, own, len_bytes, marks->open)    ? THINKING_INSIDE
           : ends_with(prompt, own, len_bytes, marks->close) ? THINKING_BEHIND
                                                             : THINKING_BEFORE;
}
