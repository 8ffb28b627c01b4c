// SPDX-License-Identifier: Apache-2.0
/* Which tokens a row may be sampled from. The definition is "mask, then sample": tokens that are refused are left out
 * before the cuts. Where few candidates decide, they are tested in their order, and the mask is not made: the result
 * is the same. */
#ifndef COORDGEN_ENGINE_SAMPLER_FILTER_H
#define COORDGEN_ENGINE_SAMPLER_FILTER_H

#include "engine/sampling/candidates.h"

enum {
    SAMPLER_FILTER_REFUSED = 1,   /* the token may not come */
    SAMPLER_FILTER_TESTS = 32,    /* refused candidates, then the mask is cheaper */
    SAMPLER_FILTER_TOP_MAX = 256, /* greatest k for which candidates are tested one by one */
};

typedef struct SamplerFilter {
    /* Tests a token. 0: it may come; SAMPLER_FILTER_REFUSED; -errno or another condition of the owner's, which ends the
     * sampling. */
    int (*test)(void *arg, uint32_t token);
    /* Finds all tokens that may come, one at least: bit i % 64 of word i / 64. Valid until the next call. 0, or as
     * above. */
    int (*mask)(void *arg, const uint64_t **maskp);
    void *arg; /* of both */
} SamplerFilter;

/* Leaves those candidates that may come; if the k likeliest decide (k > 0), the k likeliest of those. 0, or the
 * filter's error. */
int sampler_filter_apply(const SamplerFilter *filter, CandidateSet *set, size_t k);
/* Finds the token with the greatest of the logits f32[n_vocab], of equal ones the lowest id. 0, or the filter's
 * error. */
int sampler_filter_greatest(const SamplerFilter *filter, const float *logits, size_t n_vocab, uint32_t *tokenp);

#endif
