#define _GNU_SOURCE
#include "engine/tokenizer_load.h"

#include <signal.h>

static void *load_main(void *arg) {
    TokenizerLoad *load = arg;

    load->r = tokenizer_new(&load->tokenizer, load->file, &load->err);
    atomic_store(&load->is_done, true);
    return NULL;
}

/* Without a thread it is made at once. Signals stay with the threads that wait for them. */
void tokenizer_load_begin(TokenizerLoad *load, const GgufFile *file) {
    sigset_t all, before;

    *load = (TokenizerLoad){ .file = file };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    load->has_thread = !pthread_create(&load->thread, NULL, load_main, load);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (load->has_thread)
        (void)pthread_setname_np(load->thread, "tokenizer");
    else
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
