// SPDX-License-Identifier: Apache-2.0
#include "engine/embedding.h"

#include <math.h>
#include <stdlib.h>

struct Embedding {
    EmbeddingOptions options;
    size_t n_embd;
    size_t n_tokens;
    float *vector; /* f32[n_embd], behind the sums */
    double sums[]; /* f64[n_embd] */
};

size_t embedding_bytes(size_t n_embd) {
    return sizeof(Embedding) + n_embd * (sizeof(double) + sizeof(float));
}

Embedding *embedding_new(const EmbeddingOptions *options, size_t n_embd) {
    Embedding *embedding = calloc(1, embedding_bytes(n_embd));

    if (!embedding)
        return NULL;
    embedding->options = *options;
    embedding->n_embd = n_embd;
    embedding->vector = (float *)(embedding->sums + n_embd);
    return embedding;
}

Embedding *embedding_free(Embedding *embedding) {
    free(embedding);
    return NULL;
}

void embedding_add(Embedding *embedding, const float *hidden) {
    const EmbeddingPooling pooling = embedding->options.pooling;

    if (pooling == EMBEDDING_MEAN)
        for (size_t i = 0; i < embedding->n_embd; i++)
            embedding->sums[i] += (double)hidden[i];
    else if (pooling == EMBEDDING_LAST || !embedding->n_tokens)
        for (size_t i = 0; i < embedding->n_embd; i++)
            embedding->sums[i] = (double)hidden[i];
    embedding->n_tokens++;
}

const float *embedding_finish(Embedding *embedding) {
    double scale = 1, squares = 0;

    if (embedding->options.pooling == EMBEDDING_MEAN && embedding->n_tokens)
        scale = 1 / (double)embedding->n_tokens;
    for (size_t i = 0; i < embedding->n_embd; i++) {
        embedding->sums[i] *= scale;
        squares += embedding->sums[i] * embedding->sums[i];
    }
    scale = embedding->options.raw || !(squares > 0) ? 1 : 1 / sqrt(squares);
    for (size_t i = 0; i < embedding->n_embd; i++)
        embedding->vector[i] = (float)(embedding->sums[i] * scale);
    return embedding->vector;
}
