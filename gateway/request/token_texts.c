// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/token_texts.h"

#include <string.h>

int token_texts_add(TokenTexts *texts, Owned *owned, const char *text, bool add_special, const char *path,
                    const TokenText **addedp, ApiError *error) {
    const char *copy;

    if (texts->n == TOKEN_TEXTS_MAX)
        return api_error_field(error, path, "%s: a request has at most %d texts among token ids: send ids", path,
                               TOKEN_TEXTS_MAX);
    if (!texts->list)
        texts->list = owned_array(owned, TOKEN_TEXTS_MAX, sizeof(*texts->list));
    copy = owned_take(owned, strdup(path));
    if (!texts->list || !copy)
        return api_error_no_memory(error);
    texts->list[texts->n] = (TokenText){ .text = text, .path = copy, .add_special = add_special };
    *addedp = &texts->list[texts->n++];
    return 0;
}

int token_text_set(TokenText *text, Owned *owned, const uint32_t *ids, size_t n, ApiError *error) {
    uint32_t *copy = owned_array(owned, n, sizeof(*copy));

    if (!copy)
        return api_error_no_memory(error);
    if (n)
        memcpy(copy, ids, n * sizeof(*copy));
    text->ids = copy;
    text->n_ids = n;
    return 0;
}
