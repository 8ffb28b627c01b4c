// SPDX-License-Identifier: Apache-2.0
#include "engine/generation_sampling.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine/generation_state.h"

size_t generation_sampling_bytes(const Generation *generation) {
    const GenerationOptions *options = &generation->options;

    return engine_info(generation->engine)->n_vocab * sizeof(SamplerCandidate) +
           options->sampler.n_biases * sizeof(SamplerBias) +
           (options->sampler.dry.multiplier > 0 ? dry_penalty_bytes(generation->capacity_tokens) : 0) +
           (options->logprobs.are_wanted ? DRAFT_ROWS_MAX * sizeof(TokenLogprobs) : 0);
}

/* See DryPieceFn. A control token has its name: a breaker may be one. */
static void add_piece(const void *arg, uint32_t token, StrBuf *text) {
    (void)tokenizer_piece(arg, token, true, text); /* fails for padding of the vocabulary, which has no bytes */
}

static int copy_biases(Generation *generation, ErrText *err) {
    SamplerOptions *options = &generation->options.sampler;
    const uint32_t n_vocab = engine_info(generation->engine)->n_vocab;
    GenerationSampling *sampling = &generation->sampling;

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

int generation_sampling_init(Generation *generation, ErrText *err) {
    GenerationSampling *sampling = &generation->sampling;
    SamplerOptions *options = &generation->options.sampler;
    int r;

    options->n_prompt = generation->n_prompt;
    sampling->candidates = malloc(engine_info(generation->engine)->n_vocab * sizeof(*sampling->candidates));
    if (!sampling->candidates)
        return -ENOMEM;
    if (options->n_biases) {
        r = copy_biases(generation, err);
        if (r)
            return r;
    }
    if (options->dry.multiplier > 0) {
        r = dry_penalty_new(&sampling->dry, &options->dry, generation->capacity_tokens, add_piece,
                            engine_tokenizer(generation->engine));
        if (r)
            return r;
    }
    options->dry_penalty = sampling->dry;
    options->dry.breakers = NULL; /* the penalty has copies */
    options->dry.n_breakers = 0;
    if (generation->options.logprobs.are_wanted) {
        sampling->logprobs = calloc(DRAFT_ROWS_MAX, sizeof(*sampling->logprobs));
        if (!sampling->logprobs)
            return -ENOMEM;
    }
    return 0;
}

void generation_sampling_deinit(Generation *generation) {
    free(generation->sampling.candidates);
    free(generation->sampling.biases);
    free(generation->sampling.logprobs);
    dry_penalty_free(generation->sampling.dry);
}

uint32_t generation_sample(Generation *generation, const float *logits, size_t at, size_t index) {
    const size_t n_vocab = engine_info(generation->engine)->n_vocab;
    const GenerationOptions *options = &generation->options;
    GenerationSampling *sampling = &generation->sampling;
    const SamplerRow row = { &options->sampler, logits, n_vocab, generation->tokens.ids, at, at, sampling->candidates };
    uint32_t token;

    if (generation->constraint)
        token = answer_constraint_pick(generation->constraint, &row, index,
                                       generation_tokens_left(generation) - (uint32_t)index);
    else
        (void)sampler_pick_allowed(&row, NULL, &token);
    if (sampling->logprobs)
        logprobs_compute(logits, n_vocab, token, options->logprobs.n_top, &sampling->logprobs[index]);
    if (options->on_logits)
        options->on_logits(options->on_logits_arg, logits);
    return token;
}

const TokenLogprobs *generation_sampling_logprobs(const Generation *generation) {
    return generation->sampling.logprobs ? &generation->sampling.logprobs[generation->sampling.given] : NULL;
}
