// SPDX-License-Identifier: Apache-2.0
/* A text cut into the windows of tokens on which perplexity and divergence are measured; the second half of each is
 * scored. If the model wants a BOS, one stands before the text and replaces the first token of every later window. */
#ifndef COORDGEN_IMPORTER_TEXT_WINDOWS_H
#define COORDGEN_IMPORTER_TEXT_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "engine/engine.h"

typedef struct TextWindows {
    uint32_t *ids;   /* [n][len] */
    size_t n, len;   /* len is even */
    size_t n_scored; /* scored rows of each window: from len / 2 on, each with the token that follows it */
    bool bos_replaces_first;
} TextWindows;

/* Reads a text and cuts it. len: an even number from 4 to the model's positions; n: windows from the start of the text,
 * 0: all that fit. 0, -EINVAL, another -errno or a tokenizer's condition, with a text. */
int text_windows_init(TextWindows *windows, const Engine *engine, const char *file, size_t len, size_t n, ErrText *err);
/* Cuts a text in memory, which has that name in errors. */
int text_windows_of(TextWindows *windows, const Engine *engine, const char *name, const char *text, size_t len_bytes,
                    size_t len, size_t n, ErrText *err);
void text_windows_deinit(TextWindows *windows);

#endif
