// SPDX-License-Identifier: Apache-2.0
/* What a generation samples with: its copies of what the options point to, working memory, and the log probabilities of
 * the tokens that a step has sampled. */
#ifndef COORDGEN_ENGINE_GENERATION_SAMPLING_H
#define COORDGEN_ENGINE_GENERATION_SAMPLING_H

#include "engine/generation.h"

/* Zero-initialised it is empty. */
typedef struct GenerationSampling {
    SamplerCandidate *candidates; /* [n_vocab] */
    SamplerBias *biases;          /* [n_biases of the options]; NULL: none */
    DryPenalty *dry;              /* NULL: none */
    TokenLogprobs *logprobs;      /* [DRAFT_ROWS_MAX]: of the tokens that a step samples, in order; NULL: not wanted */
    size_t given;                 /* which token of the step is given out */
} GenerationSampling;

/* Returns the memory that it takes, for a text of at most capacity_tokens. */
size_t generation_sampling_bytes(const GenerationOptions *options, size_t n_vocab, size_t capacity_tokens);
/* Makes what the options need; they point to copies from here on. 0; GENERATION_E_OPTIONS (with a text): a token that
 * the model does not have; -ENOMEM. */
int generation_sampling_init(GenerationSampling *sampling, GenerationOptions *options, const Engine *engine,
                             size_t n_prompt, size_t capacity_tokens, ErrText *err);
void generation_sampling_deinit(GenerationSampling *sampling);
/* Returns the log probabilities of the token that is given out; NULL: not wanted. */
const TokenLogprobs *generation_sampling_logprobs(const GenerationSampling *sampling);

#endif
