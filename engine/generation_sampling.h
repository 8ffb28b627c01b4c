// SPDX-License-Identifier: Apache-2.0
/* How a generation samples: its copies of what the options point to, and the log probabilities of the tokens that a step
 * has sampled. */
#ifndef COORDGEN_ENGINE_GENERATION_SAMPLING_H
#define COORDGEN_ENGINE_GENERATION_SAMPLING_H

#include "engine/sampling/logprobs.h"
#include "engine/sampling/sampler.h"

typedef struct Generation Generation;

typedef struct GenerationSampling {
    SamplerCandidate *candidates; /* [n_vocab] */
    SamplerBias *biases;          /* [n_biases of the options]; NULL: none */
    DryPenalty *dry;              /* NULL: none */
    TokenLogprobs *logprobs;      /* [DRAFT_ROWS_MAX]: of the tokens that a step samples, in order; NULL: not wanted */
    size_t given;                 /* which token of the step is given out */
} GenerationSampling;

/* Returns the memory that the generation's sampling takes. */
size_t generation_sampling_bytes(const Generation *generation);
/* Makes the sampling by the generation's options, which point to its copies from here on. 0; GENERATION_E_OPTIONS (with
 * a text): a token that the model does not have; -ENOMEM. */
int generation_sampling_init(Generation *generation, ErrText *err);
void generation_sampling_deinit(Generation *generation);
/* Samples the token at index `at` of the text from logits f32[n_vocab]; tokens before it are in generation->tokens.ids.
 * index: which token of the step it is, from 0. */
uint32_t generation_sample(Generation *generation, const float *logits, size_t at, size_t index);
/* Returns the log probabilities of the token that is given out; NULL: not wanted. */
const TokenLogprobs *generation_sampling_logprobs(const Generation *generation);

#endif
