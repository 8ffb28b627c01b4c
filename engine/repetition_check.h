// SPDX-License-Identifier: Apache-2.0
/* Detects loops: a text that repeats one period of token ids, over and over, to its end, and would go on so. */
#ifndef COORDGEN_ENGINE_REPETITION_CHECK_H
#define COORDGEN_ENGINE_REPETITION_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPETITION_PERIOD_MAX 256 /* tokens; a longer period is not detected */
#define REPETITION_TOKENS_MIN 256 /* tokens of all repeats together */
#define REPETITION_REPEATS_MIN 6  /* number of repeats */
#define REPETITION_VARIETY 8      /* a period with fewer different tokens must have twice of both */

/* All zero: before the first token. */
typedef struct RepetitionCheck {
    uint32_t runs[REPETITION_PERIOD_MAX + 1]; /* [p]: number of last tokens that each equal the one p before */
} RepetitionCheck;

/* Takes the last token of text[n], after all before it. Return: whether the text has become a loop. */
bool repetition_check_push(RepetitionCheck *check, const uint32_t *text, size_t n);

#endif
