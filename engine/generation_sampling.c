// SPDX-License-Identifier: Apache-2.0
#include "engine/generation_sampling.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

size_t generation_sampling_bytes(const GenerationOptions *options, size_t n_vocab, size_t capacity_tokens) {
    return n_vocab * sizeof(SamplerCandidate) + options->sampler.n_biases * sizeof(SamplerBias) +
           (options->sampler.dry.multiplier > 0 ? dry_penalty_bytes(capacity_tokens) : 0) +
           (options->logprobs.are_wanted ? DRAFT_ROWS_MAX * sizeof(TokenLogprobs) : 0);
}

/* See DryPieceFn. A control token has its name: a breaker may be one. */
static void add_piece(const void *arg, uint32_t token, StrBuf *text) {
    (void)tokenizer_piece(arg, token, true, text); /* fails for padding of the vocabulary, which has no bytes */
}

static int copy_biases(GenerationSampling *sampling, SamplerOptions *options, uint32_t n_vocab, ErrText *err) {
    for (size_t i = 0; i < options->n_biases; i++)
        if (options->biases[i].token >= n_vocab)
            return err_set(err, GENERATION_E_OPTIONS,
                           "logit_bias: token %" PRIu32 " is not below %" PRIu32 ", the number of the model's tokens",
                           options->biases[i].token, n_vocab);
    sampling->biases = malloc(options->n_biases * sizeof(*sampling->biases));
    if (!sampling->biases)
        return -ENOMEM;
    memcpy(sampling->biases, options->biases, options->n_biases * sizeof(*sampling->biases));
    options->biases = sampling->biases;
    return 0;
}

int generation_sampling_init(GenerationSampling *sampling, GenerationOptions *options, const Engine *engine,
                             size_t n_prompt, size_t capacity_tokens, ErrText *err) {
    const uint32_t n_vocab = engine_info(engine)->n_vocab;
    SamplerOptions *sampler = &options->sampler;
    int r;

    sampler->n_prompt = n_prompt;
    sampling->candidates = malloc(n_vocab * sizeof(*sampling->candidates));
    if (!sampling->candidates)
        return -ENOMEM;
    if (sampler->n_biases) {
        r = copy_biases(sampling, sampler, n_vocab, err);
        if (r)
            return r;
    }
    if (sampler->dry.multiplier > 0) {
        r = dry_penalty_new(&sampling->dry, &sampler->dry, capacity_tokens, add_piece, engine_tokenizer(engine));
        if (r)
            return r;
    }
    sampler->dry_penalty = sampling->dry;
    sampler->dry.breakers = NULL; /* the penalty has copies */
    sampler->dry.n_breakers = 0;
    if (options->logprobs.are_wanted) {
        sampling->logprobs = calloc(DRAFT_ROWS_MAX, sizeof(*sampling->logprobs));
        if (!sampling->logprobs)
            return -ENOMEM;
    }
    return 0;
}

void generation_sampling_deinit(GenerationSampling *sampling) {
    free(sampling->candidates);
    free(sampling->biases);
    free(sampling->logprobs);
    dry_penalty_free(sampling->dry);
}

const TokenLogprobs *generation_sampling_logprobs(const GenerationSampling *sampling) {
    return sampling->logprobs ? &sampling->logprobs[sampling->given] : NULL;
}
