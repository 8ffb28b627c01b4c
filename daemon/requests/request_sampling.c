// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_sampling.h"

#include "base/cleanup.h"

#define DEFAULT_XTC_THRESHOLD 0.1f
#define DEFAULT_DRY_BASE 1.75f
#define DEFAULT_DRY_ALLOWED_LENGTH 2

/* Texts that end a repetition, as llama.cpp has them. */
static const char *const default_breakers[] = { "\n", ":", "\"", "*" };

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static DryOptions dry_options(const Coordgen__V1__SamplingOptions *message) {
    DryOptions dry = {
        .multiplier = message->dry_multiplier,
        .base = message->has_dry_base ? message->dry_base : DEFAULT_DRY_BASE,
        .allowed_length = message->has_dry_allowed_length ? message->dry_allowed_length : DEFAULT_DRY_ALLOWED_LENGTH,
        .window = message->dry_window,
        .breakers = default_breakers,
        .n_breakers = ARRAY_LEN(default_breakers),
    };

    if (!(dry.multiplier > 0))
        return (DryOptions){ 0 };
    if (message->n_dry_breaker) {
        dry.breakers = (const char *const *)message->dry_breaker;
        dry.n_breakers = *message->dry_breaker[0] ? message->n_dry_breaker : 0; /* a single empty text: none */
    }
    return dry;
}

uint32_t request_sampling_take(const Coordgen__V1__SamplingOptions *message, SamplerBias *biases,
                               SamplerOptions *options) {
    *options = (SamplerOptions){
        .temperature = message->temperature,
        .top_k = message->top_k,
        .top_p = message->top_p,
        .min_p = message->min_p,
        .repetition_penalty = message->repetition_penalty,
        .repetition_window = message->repetition_window,
        .presence_penalty = message->presence_penalty,
        .frequency_penalty = message->frequency_penalty,
        .typical_p = message->has_typical_p ? message->typical_p : 1,
        .xtc_probability = message->xtc_probability,
        .xtc_threshold = message->has_xtc_threshold ? message->xtc_threshold : DEFAULT_XTC_THRESHOLD,
        .dry = dry_options(message),
        .biases = biases,
        .n_biases = message->n_logit_bias,
    };
    for (size_t i = 0; i < message->n_logit_bias; i++)
        biases[i] = (SamplerBias){ message->logit_bias[i]->token, message->logit_bias[i]->bias };
    return (uint32_t)(!!message->has_temperature << SAMPLING_TEMPERATURE | !!message->has_top_k << SAMPLING_TOP_K |
                      !!message->has_top_p << SAMPLING_TOP_P | !!message->has_min_p << SAMPLING_MIN_P |
                      !!message->has_repetition_penalty << SAMPLING_REPETITION_PENALTY |
                      !!message->has_repetition_window << SAMPLING_REPETITION_WINDOW);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static void fill_dry(const DryOptions *dry, Coordgen__V1__SamplingOptions *message) {
    static char nothing[] = "", *none[] = { nothing };

    message->has_dry_multiplier = message->has_dry_base = true;
    message->has_dry_allowed_length = message->has_dry_window = true;
    message->dry_multiplier = dry->multiplier;
    message->dry_base = dry->base;
    message->dry_allowed_length = dry->allowed_length;
    message->dry_window = dry->window;
    message->n_dry_breaker = dry->n_breakers ? dry->n_breakers : 1;
    message->dry_breaker = dry->n_breakers ? (char **)(uintptr_t)dry->breakers : none; /* packing only reads them */
}

void request_sampling_fill(const SamplerOptions *options, const Coordgen__V1__SamplingOptions *asked,
                           Coordgen__V1__SamplingOptions *message) {
    coordgen__v1__sampling_options__init(message);
    message->has_temperature = message->has_top_k = message->has_top_p = message->has_min_p = true;
    message->has_repetition_penalty = message->has_repetition_window = message->has_seed = true;
    message->temperature = options->temperature;
    message->top_k = options->top_k;
    message->top_p = options->top_p;
    message->min_p = options->min_p;
    message->repetition_penalty = options->repetition_penalty;
    message->repetition_window = options->repetition_window;
    message->seed = options->seed;
    message->has_presence_penalty = options->presence_penalty != 0;
    message->presence_penalty = options->presence_penalty;
    message->has_frequency_penalty = options->frequency_penalty != 0;
    message->frequency_penalty = options->frequency_penalty;
    message->has_typical_p = options->typical_p > 0 && options->typical_p < 1;
    message->typical_p = options->typical_p;
    message->has_xtc_probability = message->has_xtc_threshold = options->xtc_probability > 0;
    message->xtc_probability = options->xtc_probability;
    message->xtc_threshold = options->xtc_threshold;
    if (options->dry.multiplier > 0)
        fill_dry(&options->dry, message);
    message->n_logit_bias = asked ? asked->n_logit_bias : 0;
    message->logit_bias = asked ? asked->logit_bias : NULL;
}

static Coordgen__V1__SamplingOrigin origin_of(const SamplingChoice *choice, SamplingField field) {
    static const Coordgen__V1__SamplingOrigin origins[] = {
        [SAMPLING_FROM_SERVICE] = COORDGEN__V1__SAMPLING_ORIGIN__SAMPLING_ORIGIN_SERVICE,
        [SAMPLING_FROM_REQUEST] = COORDGEN__V1__SAMPLING_ORIGIN__SAMPLING_ORIGIN_REQUEST,
        [SAMPLING_FROM_FILE] = COORDGEN__V1__SAMPLING_ORIGIN__SAMPLING_ORIGIN_FILE,
        [SAMPLING_FROM_FAMILY] = COORDGEN__V1__SAMPLING_ORIGIN__SAMPLING_ORIGIN_FAMILY,
    };

    return origins[choice->origins[field]];
}

void request_sampling_fill_origins(const SamplingChoice *choice, Coordgen__V1__SamplingOrigins *message) {
    coordgen__v1__sampling_origins__init(message);
    message->has_temperature = message->has_top_k = message->has_top_p = message->has_min_p = true;
    message->has_repetition_penalty = message->has_repetition_window = true;
    message->temperature = origin_of(choice, SAMPLING_TEMPERATURE);
    message->top_k = origin_of(choice, SAMPLING_TOP_K);
    message->top_p = origin_of(choice, SAMPLING_TOP_P);
    message->min_p = origin_of(choice, SAMPLING_MIN_P);
    message->repetition_penalty = origin_of(choice, SAMPLING_REPETITION_PENALTY);
    message->repetition_window = origin_of(choice, SAMPLING_REPETITION_WINDOW);
}
