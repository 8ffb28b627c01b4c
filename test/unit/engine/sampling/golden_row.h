// SPDX-License-Identifier: Apache-2.0
/* The rows of test/golden/sampling/make-sampling: logits, histories and the bytes of tokens, drawn as it draws them. */
#ifndef COORDGEN_TEST_UNIT_GOLDEN_ROW_H
#define COORDGEN_TEST_UNIT_GOLDEN_ROW_H

#include <stdint.h>

#include "base/strings/str_buf.h"

#define GOLDEN_ROW_VOCAB 1000
#define GOLDEN_ROW_PROMPT 120
#define GOLDEN_ROW_HISTORY 300
#define GOLDEN_ROW_POSITIONS 16

/* Fills in logits[GOLDEN_ROW_VOCAB]. */
void golden_row_logits(uint32_t seed, float *logits);
/* Fills in history[GOLDEN_ROW_HISTORY]. */
void golden_row_history(uint32_t seed, uint32_t *history);
/* A DryPieceFn. */
void golden_row_piece(const void *arg, uint32_t token, StrBuf *text);

#endif
