// SPDX-License-Identifier: Apache-2.0
/* Texts of a request that the service must turn into token ids before the generation: biases of words, and prompts of
 * ids and texts. */
#ifndef COORDGEN_GATEWAY_TOKEN_TEXTS_H
#define COORDGEN_GATEWAY_TOKEN_TEXTS_H

#include <stdbool.h>

#include "gateway/json/owned.h"

enum {
    TOKEN_TEXTS_MAX = 256, /* of a request: each one is a request to the service */
};

typedef struct TokenText {
    const char *text, *path; /* path: the field that has the text */
    bool add_special;        /* with the tokens that the model wants at the front */
    const uint32_t *ids;     /* NULL: not known yet */
    size_t n_ids;
} TokenText;

typedef struct TokenTexts {
    TokenText *list; /* [TOKEN_TEXTS_MAX], or NULL: there is none */
    size_t n;
} TokenTexts;

/* Adds a text, which lives as long as the owner. *addedp: the text, which stays in its place. 0 or API_E_REFUSED. */
int token_texts_add(TokenTexts *texts, Owned *owned, const char *text, bool add_special, const char *path,
                    const TokenText **addedp, ApiError *error);
/* Copies the ids of a text. 0 or API_E_REFUSED. */
int token_text_set(TokenText *text, Owned *owned, const uint32_t *ids, size_t n, ApiError *error);

#endif
