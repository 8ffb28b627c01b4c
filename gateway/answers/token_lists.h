// SPDX-License-Identifier: Apache-2.0
/* Tokens of the choices of an answer that is sent whole, collected from its deltas: the reply has none. */
#ifndef COORDGEN_GATEWAY_TOKEN_LISTS_H
#define COORDGEN_GATEWAY_TOKEN_LISTS_H

#include <jansson.h>

#include "client/coordgen-client.h"

typedef struct TokenLists {
    size_t n_choices;
    json_t *ids;      /* [n_choices] arrays of ids */
    json_t *logprobs; /* [n_choices] arrays of what make() made of each token */
} TokenLists;

/* Makes the entry of a token. NULL: out of memory. */
typedef json_t *TokenListsMakeFn(const CoordgenTokenLogprobs *token);

/* NULL: out of memory. */
TokenLists *token_lists_new(size_t n_choices);
void token_lists_free(void *lists);
/* Adds the tokens of a delta to a choice. */
void token_lists_add(TokenLists *lists, size_t choice, const CoordgenEvent *event, TokenListsMakeFn *make);
/* Return the lists of a choice, which stay the owner's. */
json_t *token_lists_ids(const TokenLists *lists, size_t choice);
json_t *token_lists_logprobs(const TokenLists *lists, size_t choice);

#endif
