// SPDX-License-Identifier: Apache-2.0
/* Makes a tokenizer on a thread of its own, while another thread loads the weights. */
#ifndef COORDGEN_TEXT_TOKENIZER_LOAD_H
#define COORDGEN_TEXT_TOKENIZER_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "text/tokenizer/tokenizer.h"

typedef struct TokenizerLoad {
    const GgufFile *file;
    const char *chat_template; /* NULL: the file's */
    size_t chat_template_bytes;
    Tokenizer *tokenizer;
    ErrText err;
    int r;
    uint64_t start_ns, end_ns; /* times of clock_now_ns() */
    bool has_thread;
    _Atomic bool is_done;
    pthread_t thread;
} TokenizerLoad;

/* Begins. file and chat_template (NULL: the file's own) stay valid until tokenizer_load_end(). */
void tokenizer_load_begin(TokenizerLoad *load, const GgufFile *file, const char *chat_template,
                          size_t chat_template_bytes);
/* Whether tokenizer_load_end() would return at once. */
bool tokenizer_load_is_done(const TokenizerLoad *load);
/* Waits for the tokenizer; called once. Returns and sets err as tokenizer_new() does. */
int tokenizer_load_end(TokenizerLoad *load, Tokenizer **tokenizerp, ErrText *err);

#endif
