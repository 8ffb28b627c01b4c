// SPDX-License-Identifier: Apache-2.0
/* A tokenizer that is made by a thread of its own, while another one brings the weights. */
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
    uint64_t start_ns, end_ns; /* of clock_now_ns() */
    bool has_thread;
    _Atomic bool is_done;
    pthread_t thread;
} TokenizerLoad;

/* Begins; the file stays open until the end of it. chat_template: another one than the file's, likewise; NULL: none. */
void tokenizer_load_begin(TokenizerLoad *load, const GgufFile *file, const char *chat_template,
                          size_t chat_template_bytes);
/* Whether the end of it would not wait. */
bool tokenizer_load_is_done(const TokenizerLoad *load);
/* Waits for it, once. Return, and err: as tokenizer_new(). */
int tokenizer_load_end(TokenizerLoad *load, Tokenizer **tokenizerp, ErrText *err);

#endif
