// SPDX-License-Identifier: Apache-2.0
#include "test/unit/text/tokenizer/hard_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 12;
}

/* A Fibonacci word is the word before followed by the one before that, so a prefix of the text is copied behind it. */
static void fibonacci(uint32_t *tokens, size_t n) {
    size_t before = 1, len = 2;

    for (size_t i = 0; i < n && i < 2; i++)
        tokens[i] = (uint32_t)i;
    while (len < n) {
        size_t copy = MIN(before, n - len);

        memcpy(tokens + len, tokens, copy * sizeof(*tokens));
        before = len;
        len += copy;
    }
}

/* Makes a sequence by "prefer one": the next token is 1 unless that pattern was there. A bit records each pattern. */
static void de_bruijn(uint32_t *tokens, size_t n) {
    uint32_t order = 3, pattern = 0;
    uint8_t *seen;

    while (n >> order)
        order++;
    seen = calloc(1, ((size_t)1 << order) / 8);
    for (size_t i = 0; seen && i < n; i++) {
        uint32_t mask = (1u << order) - 1, one = (pattern << 1 | 1) & mask;

        tokens[i] = i >= order && !(seen[one / 8] >> one % 8 & 1);
        pattern = (pattern << 1 | tokens[i]) & mask;
        seen[pattern / 8] |= (uint8_t)(1 << pattern % 8);
    }
    free(seen);
}

void hard_text(HardText kind, uint32_t seed, uint32_t *tokens, size_t n) {
    if (kind == HARD_TEXT_FIBONACCI)
        fibonacci(tokens, n);
    else if (kind == HARD_TEXT_DE_BRUIJN)
        de_bruijn(tokens, n);
    else
        for (size_t i = 0; i < n; i++) {
            uint32_t random = next_random(&seed);

            tokens[i] = kind == HARD_TEXT_ONE        ? 7
                        : kind == HARD_TEXT_RUN      ? (random % 40 ? 7 : 8 + random / 40 % 3)
                        : kind == HARD_TEXT_PERIODIC ? (uint32_t)(i % 50 ? i % 7 : 100 + i / 50 % 40000)
                        : kind == HARD_TEXT_RANDOM_2 ? random % 2
                        : kind == HARD_TEXT_RANDOM_4 ? random % 4
                                                     : random % 50000;
        }
}

bool hard_text_is_shallow(HardText kind) {
    return kind > HARD_TEXT_PERIODIC;
}
