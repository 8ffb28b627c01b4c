// SPDX-License-Identifier: Apache-2.0
/* Sampling of one token from logits. Random numbers come from a counter (Philox4x32-10) keyed by seed and position, so
 * that a token depends on nothing but its logits, its position, the seed and the tokens before it. docs/sampling.md has
 * the definition of every step. */
#ifndef COORDGEN_ENGINE_SAMPLER_H
#define COORDGEN_ENGINE_SAMPLER_H

#include "engine/sampling/sampler_filter.h"
#include "engine/sampling/sampler_options.h"

/* Samples one token. history: the tokens before it, prompt included. scratch: [n_vocab]. position: index of the sampled
 * token. */
uint32_t sampler_pick(const SamplerOptions *options, const float *logits, size_t n_vocab, const uint32_t *history,
                      size_t n_history, uint64_t position, SamplerCandidate *scratch);

/* A row to sample from: the arguments of sampler_pick(). */
typedef struct SamplerRow {
    const SamplerOptions *options;
    const float *logits; /* f32[n_vocab] */
    size_t n_vocab;
    const uint32_t *history; /* [n_history] */
    size_t n_history;
    uint64_t position;
    SamplerCandidate *scratch; /* [n_vocab] */
} SamplerRow;

/* Samples one of the tokens that the filter allows, *tokenp; NULL: of all. 0, or the filter's error. */
int sampler_pick_allowed(const SamplerRow *row, const SamplerFilter *filter, uint32_t *tokenp);

/* What a random number is for: each use has a stream of its own. */
typedef enum SamplerStream {
    SAMPLER_STREAM_DRAW,
    SAMPLER_STREAM_XTC,
} SamplerStream;

/* Returns a uniform random number in [0, 1) of 24 bits. */
float sampler_uniform(uint64_t seed, uint64_t position, SamplerStream stream);

#endif
