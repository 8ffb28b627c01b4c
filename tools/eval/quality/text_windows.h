// SPDX-License-Identifier: Apache-2.0
/* A text as windows of tokens for perplexity and divergence, which score the second half of each. A model that wants a
 * BOS has one before the text, and in place of the first token of every later window. */
#ifndef COORDGEN_EVAL_TEXT_WINDOWS_H
#define COORDGEN_EVAL_TEXT_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "engine/engine.h"

typedef struct TextWindows {
    uint32_t *ids;   /* [n][len] */
    size_t n, len;   /* len is even */
    size_t n_scored; /* scored rows of each window: from len / 2 on, each with the following token */
    bool bos_replaces_first;
} TextWindows;

/* Makes n windows of @len tokens from the start of the text (n 0: all that fit); len is even, from 4 to the model's
 * positions. Return: 0, -EINVAL, another -errno or a tokenizer's condition, with a text. */
int text_windows_init(TextWindows *windows, const Engine *engine, const char *file, size_t len, size_t n, ErrText *err);
/* Makes windows of a text in memory, which errors call @name. */
int text_windows_of(TextWindows *windows, const Engine *engine, const char *name, const char *text, size_t len_bytes,
                    size_t len, size_t n, ErrText *err);
void text_windows_deinit(TextWindows *windows);

#endif
