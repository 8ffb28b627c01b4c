// SPDX-License-Identifier: Apache-2.0
/* Sampling of one token from logits. Random numbers come from a counter (Philox4x32-10) keyed by seed and position, so
 * that a token depends on nothing but its logits, its position, the seed and the tokens before it. docs/sampling.md has
 * the definition of every step. */
#ifndef COORDGEN_ENGINE_SAMPLER_H
#define COORDGEN_ENGINE_SAMPLER_H

#include "base/err.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/dry_penalty.h"
#include "engine/sampling/sampler_filter.h"

enum {
    SAMPLER_E_OPTIONS = 1, /* an option out of its range; the text names it */
};

#define SAMPLER_BIASES_MAX 1024
#define SAMPLER_BIAS_MAX 1000

/* Is added to the logit of a token. */
typedef struct SamplerBias {
    uint32_t token;
    float bias; /* within +-SAMPLER_BIAS_MAX; -infinity: the token is never given */
} SamplerBias;

/* All zero, but for top_p and repetition_penalty: everything is off. */
typedef struct SamplerOptions {
    float temperature;          /* 0: greedy; else > 0 .. 100 */
    uint32_t top_k;             /* 0: off */
    float top_p;                /* 1: off; (0, 1] */
    float min_p;                /* 0: off; [0, 1) */
    float repetition_penalty;   /* 1: off; (0, 10] */
    uint32_t repetition_window; /* number of last tokens that the penalty looks at; 0: all */
    uint64_t seed;
    float presence_penalty;  /* 0: off; -10 .. 10; taken from the logits of tokens of the answer */
    float frequency_penalty; /* 0: off; -10 .. 10; taken as often as a token stands in the answer */
    float typical_p;         /* 0 or 1: off; (0, 1] */
    float xtc_probability;   /* 0: off; [0, 1] */
    float xtc_threshold;     /* [0, 0.5] */
    DryOptions dry;          /* multiplier 0: off */
    /* [n_biases]: added before everything else. Whoever makes the options keeps them; a generation makes copies. */
    const SamplerBias *biases;
    size_t n_biases;
    /* Set by the generation: */
    size_t n_prompt;         /* tokens of the history before the answer */
    DryPenalty *dry_penalty; /* NULL: dry is off */
} SamplerOptions;

#define SAMPLER_OPTIONS_GREEDY ((SamplerOptions){ .top_p = 1, .repetition_penalty = 1, .repetition_window = 64 })

/* Checks that all options are in range: 0 or SAMPLER_E_OPTIONS. */
int sampler_options_check(const SamplerOptions *options, ErrText *err);
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
