// SPDX-License-Identifier: Apache-2.0
/* Log probabilities of tokens under the model's own distribution: softmax of its logits, at temperature 1, before bias,
 * penalties and masks. docs/numbers.md has the order of the sum, which gives the same bits everywhere. */
#ifndef COORDGEN_ENGINE_LOGPROBS_H
#define COORDGEN_ENGINE_LOGPROBS_H

#include <stddef.h>
#include <stdint.h>

#define LOGPROBS_TOP_MAX 20

typedef struct Logprob {
    uint32_t token;
    float logprob; /* natural logarithm */
} Logprob;

/* The log probability of a token that was given, and of the most probable ones in its place. */
typedef struct TokenLogprobs {
    Logprob chosen;
    uint32_t n_top;
    Logprob top[LOGPROBS_TOP_MAX]; /* best first; of equal ones the lower id */
} TokenLogprobs;

/* Computes log probabilities from logits f32[n_vocab], finite. n_top: at most LOGPROBS_TOP_MAX; fewer come if the
 * vocabulary is smaller. chosen: below n_vocab. Thread: any. */
void logprobs_compute(const float *logits, size_t n_vocab, uint32_t chosen, uint32_t n_top, TokenLogprobs *result);

#endif
