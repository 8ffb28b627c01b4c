// SPDX-License-Identifier: Apache-2.0
/* Texts of tokens that are hard on what searches them for substrings: runs, periods, Fibonacci words, de Bruijn
 * sequences; and random ones. */
#ifndef COORDGEN_TEST_UNIT_HARD_TEXT_H
#define COORDGEN_TEST_UNIT_HARD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum HardText {
    HARD_TEXT_ONE,       /* a single token */
    HARD_TEXT_RUN,       /* runs of it, each ended by another token */
    HARD_TEXT_PERIODIC,  /* of 7, with a token of its own once in 50 */
    HARD_TEXT_FIBONACCI, /* has as many repetitions as any text without periods */
    HARD_TEXT_DE_BRUIJN, /* has each pattern of its length over 2 tokens once */
    HARD_TEXT_RANDOM_2,
    HARD_TEXT_RANDOM_4,
    HARD_TEXT_RANDOM_MANY,
    _HARD_TEXT_N
} HardText;

/* Tokens below 50,000; the same for a seed. */
void hard_text(HardText kind, uint32_t seed, uint32_t *tokens, size_t n);
/* Few of its ends came before in many different contexts. */
bool hard_text_is_shallow(HardText kind);

#endif
