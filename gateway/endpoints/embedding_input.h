// SPDX-License-Identifier: Apache-2.0
/* The texts of a request for embeddings: a text, token ids, or a list of these. */
#ifndef COORDGEN_GATEWAY_EMBEDDING_INPUT_H
#define COORDGEN_GATEWAY_EMBEDDING_INPUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/json/owned.h"

enum {
    EMBEDDING_INPUTS_MAX = 2048, /* as OpenAI's API has it */
    EMBEDDING_BATCH_MAX = 64,    /* texts of one request to the service, whose reply must fit a message */
};

/* All inputs. An input is a text or a list of token ids: its other place is NULL. */
typedef struct EmbeddingInputs {
    const char **texts; /* [n]; the texts are the body's, or owned */
    uint32_t **tokens;  /* [n] */
    size_t *n_tokens;   /* [n] */
    size_t n;
    Owned owned;
} EmbeddingInputs;

/* Reads the value of the field @name. 0 or API_E_REFUSED; embedding_inputs_deinit() is due in any case. */
int embedding_inputs_read(EmbeddingInputs *inputs, const json_t *value, const char *name, ApiError *error);
void embedding_inputs_deinit(EmbeddingInputs *inputs);
/* Returns how many inputs from @first on make the next request: of one kind, at most EMBEDDING_BATCH_MAX. */
size_t embedding_inputs_batch(const EmbeddingInputs *inputs, size_t first);

#endif
