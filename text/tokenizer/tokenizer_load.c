// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer_load.h"

#include "base/clock.h"
#include "base/system/thread.h"

static void *load_main(void *arg) {
    TokenizerLoad *load = arg;

    load->start_ns = clock_now_ns();
    load->r = load->chat_template ? tokenizer_new_for_chat(&load->tokenizer, load->file, load->chat_template,
                                                           load->chat_template_bytes, &load->err)
                                  : tokenizer_new(&load->tokenizer, load->file, &load->err);
    load->end_ns = clock_now_ns();
    atomic_store(&load->is_done, true);
    return NULL;
}

/* If no thread can be made, the tokenizer is made here. */
void tokenizer_load_begin(TokenizerLoad *load, const GgufFile *file, const char *chat_template,
                          size_t chat_template_bytes) {
    *load = (TokenizerLoad){ .file = file, .chat_template = chat_template, .chat_template_bytes = chat_template_bytes };
    load->has_thread = !thread_start(&load->thread, "tokenizer", load_main, load);
    if (!load->has_thread)
        load_main(load);
}

bool tokenizer_load_is_done(const TokenizerLoad *load) {
    return atomic_load(&load->is_done);
}

int tokenizer_load_end(TokenizerLoad *load, Tokenizer **tokenizerp, ErrText *err) {
    if (load->has_thread)
        pthread_join(load->thread, NULL);
    *tokenizerp = load->tokenizer;
    if (load->r)
        *err = load->err;
    return load->r;
}
