// SPDX-License-Identifier: Apache-2.0
/* Tells from its token ids when a text repeats itself and will go on so: one period, over and over, to its end. */
#ifndef COORDGEN_ENGINE_REPETITION_CHECK_H
#define COORDGEN_ENGINE_REPETITION_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPETITION_PERIOD_MAX 256 /* tokens; a longer period is not seen */
#define REPETITION_TOKENS_MIN 256 /* that the repeats have together, */
#define REPETITION_REPEATS_MIN 6  /* and how many they are; */
#define REPETITION_VARIETY 8      /* both are twice as many where the period has fewer different tokens than this */

/* All zero: before the first token. */
typedef struct RepetitionCheck {
    uint32_t runs[REPETITION_PERIOD_MAX + 1]; /* [p]: last tokens that are each the same as the one p before */
} RepetitionCheck;

/* Takes the last of text[n], of which all before was taken. Whether the text is a loop from here on. */
bool repetition_check_push(RepetitionCheck *check, const uint32_t *text, size_t n);

#endif
