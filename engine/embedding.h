// SPDX-License-Identifier: Apache-2.0
/* The vector of a text: the model's hidden states behind the last layer and its norm, pooled over the text's tokens. */
#ifndef COORDGEN_ENGINE_EMBEDDING_H
#define COORDGEN_ENGINE_EMBEDDING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

typedef enum EmbeddingPooling {
    EMBEDDING_NONE, /* no vector is wanted */
    EMBEDDING_MEAN, /* the mean over all tokens */
    EMBEDDING_CLS,  /* the first token's state */
    EMBEDDING_LAST, /* the last token's state */
} EmbeddingPooling;

typedef struct EmbeddingOptions {
    EmbeddingPooling pooling;
    bool raw; /* false: the vector has length 1 */
} EmbeddingOptions;

typedef struct Embedding Embedding;

/* Makes a vector of n_embd values without a token. NULL: no memory. */
Embedding *embedding_new(const EmbeddingOptions *options, size_t n_embd);
Embedding *embedding_free(Embedding *embedding);
DEFINE_CLEANUP(Embedding, embedding_free)
/* Returns the bytes that embedding_new() takes. */
size_t embedding_bytes(size_t n_embd);
/* Adds the state f32[n_embd] of the text's next token. Sums are float64 in the order of tokens, so the vector does not
 * depend on the steps that the tokens came in. */
void embedding_add(Embedding *embedding, const float *hidden);
/* Finishes the vector behind the last token, once. Return: f32[n_embd], valid as long as the embedding. */
const float *embedding_finish(Embedding *embedding);

#endif
