// SPDX-License-Identifier: Apache-2.0
#include "importer/check/text_windows.h"

#include <errno.h>
#include <stdlib.h>

#include "base/files/file_io.h"

#define TEXT_MAX ((size_t)64 << 20)

void text_windows_deinit(TextWindows *windows) {
    free(windows->ids);
    windows->ids = NULL;
}

static int check_shape(const Engine *engine, const char *file, size_t n_tokens, size_t len, size_t n, ErrText *err) {
    uint32_t n_context = engine_info(engine)->n_context;

    if (len < 4 || len % 2 || len > n_context)
        return err_set(err, -EINVAL, "--window %zu: an even number from 4 to the model's %u positions is needed", len,
                       n_context);
    if (n_tokens < len)
        return err_set(err, -EINVAL, "%s: its %zu tokens do not fill one window of %zu (a smaller --window would do)",
                       file, n_tokens, len);
    if (n > n_tokens / len)
        return err_set(err, -EINVAL, "%s: %zu tokens make %zu windows of %zu, but --windows asks for %zu", file,
                       n_tokens, n_tokens / len, len, n);
    return 0;
}

int text_windows_init(TextWindows *windows, const Engine *engine, const char *file, size_t len, size_t n,
                      ErrText *err) {
    _cleanup_(freep) char *text = NULL;
    size_t len_bytes;
    int r = file_slurp(file, TEXT_MAX, &text, &len_bytes, err);

    return r ? r : text_windows_of(windows, engine, file, text, len_bytes, len, n, err);
}

int text_windows_of(TextWindows *windows, const Engine *engine, const char *name, const char *text, size_t len_bytes,
                    size_t len, size_t n, ErrText *err) {
    const Tokenizer *tokenizer = engine_tokenizer(engine);
    _cleanup_(token_list_deinit) TokenList tokens = { 0 };
    int r = tokenizer_encode(tokenizer, text, len_bytes, TOKENIZE_ADD_SPECIAL, &tokens, err);

    if (!r)
        r = check_shape(engine, name, tokens.n, len, n, err);
    if (r)
        return r;
    *windows = (TextWindows){
        .n = n ? n : tokens.n / len,
        .len = len,
        .n_scored = len / 2 - 1,
        .bos_replaces_first = tokenizer_adds_bos(tokenizer),
    };
    windows->ids = steal(&tokens.ids);
    for (size_t i = 0; windows->bos_replaces_first && i < windows->n; i++)
        windows->ids[i * len] = tokenizer_bos(tokenizer);
    return 0;
}
