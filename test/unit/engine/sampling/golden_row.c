// SPDX-License-Identifier: Apache-2.0
#include "test/unit/engine/sampling/golden_row.h"

#include <stddef.h>

static uint32_t next(uint32_t *x) {
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

void golden_row_logits(uint32_t seed, float *logits) {
    for (size_t i = 0; i < GOLDEN_ROW_VOCAB; i++)
        logits[i] = (float)next(&seed) * 0x1p-24f * 16 - 10;
}

void golden_row_history(uint32_t seed, uint32_t *history) {
    for (size_t n = 0; n < GOLDEN_ROW_HISTORY;) {
        const uint32_t phrase = next(&seed) % 7;
        uint32_t single;

        for (uint32_t i = 0; i < 3 + phrase && n < GOLDEN_ROW_HISTORY; i++)
            history[n++] = (phrase * 31 + i * i * 5) % 90;
        if (next(&seed) % 3)
            continue;
        single = next(&seed) % GOLDEN_ROW_VOCAB;
        if (n < GOLDEN_ROW_HISTORY)
            history[n++] = single;
    }
}

void golden_row_piece(const void *arg, uint32_t token, StrBuf *text) {
    const char letter = (char)('a' + token % 26);

    if (token % 50 == 11) {
        str_buf_add(text, "xy");
        return;
    }
    str_buf_append(text, &letter, 1);
    str_buf_add(text, token % 97 == 5 ? "\n" : "");
    str_buf_add(text, token % 89 == 7 ? "*" : "");
}
