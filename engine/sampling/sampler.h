// SPDX-License-Identifier: Apache-2.0
/* Sampling of one token from logits. Random numbers come from a counter (Philox4x32-10) keyed by seed and position, so
 * that a token depends on nothing but its logits, its position, the seed and the tokens before it. */
#ifndef COORDGEN_ENGINE_SAMPLER_H
#define COORDGEN_ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SAMPLER_E_OPTIONS = 1, /* an option out of its range; the text names it */
};

typedef struct SamplerOptions {
    float temperature;          /* 0: greedy; else > 0 .. 100 */
    uint32_t top_k;             /* 0: off */
    float top_p;                /* 1: off; (0, 1] */
    float min_p;                /* 0: off; [0, 1) */
    float repetition_penalty;   /* 1: off; (0, 10] */
    uint32_t repetition_window; /* number of last tokens that the penalty looks at; 0: all */
    uint64_t seed;
} SamplerOptions;

#define SAMPLER_OPTIONS_GREEDY ((SamplerOptions){ .top_p = 1, .repetition_penalty = 1, .repetition_window = 64 })

typedef struct SamplerCandidate {
    float logit;
    uint32_t id;
} SamplerCandidate;

/* Checks that all options are in range: 0 or SAMPLER_E_OPTIONS. */
int sampler_options_check(const SamplerOptions *options, ErrText *err);
/* Samples one token. history: the tokens before it, prompt included. scratch: [n_vocab]. position: index of the sampled
 * token. */
uint32_t sampler_pick(const SamplerOptions *options, const float *logits, size_t n_vocab, const uint32_t *history,
                      size_t n_history, uint64_t position, SamplerCandidate *scratch);
/* Returns a uniform random number in [0, 1) of 24 bits. */
float sampler_uniform(uint64_t seed, uint64_t position);

#endif
