// SPDX-License-Identifier: Apache-2.0
/* Texts of tokens that are hard to search for substrings: runs, periods, Fibonacci words, de Bruijn sequences. Random
 * texts too. */
#ifndef COORDGEN_TEST_UNIT_HARD_TEXT_H
#define COORDGEN_TEST_UNIT_HARD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum HardText {
    HARD_TEXT_ONE,       /* a single token */
    HARD_TEXT_RUN,       /* runs of it, each ended by another token */
    HARD_TEXT_PERIODIC,  /* periods of 7, with another token once in 50 */
    HARD_TEXT_FIBONACCI, /* has as many repetitions as any text without periods */
    HARD_TEXT_DE_BRUIJN, /* has each pattern of its length over 2 tokens once */
    HARD_TEXT_RANDOM_2,
    HARD_TEXT_RANDOM_4,
    HARD_TEXT_RANDOM_MANY,
    _HARD_TEXT_N
} HardText;

/* Makes tokens below 50,000, which depend on the seed only. */
void hard_text(HardText kind, uint32_t seed, uint32_t *tokens, size_t n);
/* Whether few ends of the text came before in many different contexts. */
bool hard_text_is_shallow(HardText kind);

#endif
