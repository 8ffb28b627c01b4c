// SPDX-License-Identifier: Apache-2.0
/* Options of the sampler. docs/sampling.md defines each. */
#ifndef COORDGEN_ENGINE_SAMPLER_OPTIONS_H
#define COORDGEN_ENGINE_SAMPLER_OPTIONS_H

#include "engine/sampling/dry_penalty.h"

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

#endif
