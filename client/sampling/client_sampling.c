// SPDX-License-Identifier: Apache-2.0
#include "client/sampling/client_sampling.h"

#include <stddef.h>
#include <stdlib.h>

/* Fills in the biases. 0, or a CoordgenError that the client has. */
static int biases_fill(CoordgenClient *client, ClientSampling *sampling, const CoordgenSamplingOptions *more) {
    const size_t n = more->n_logit_bias;

    if (!n)
        return 0;
    if (!more->logit_bias)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.sampling.logit_bias", 0,
                           "%zu biases are given, which are NULL", n);
    sampling->biases = calloc(n, sizeof(*sampling->biases));
    sampling->bias_pointers = calloc(n, sizeof(*sampling->bias_pointers));
    if (!sampling->biases || !sampling->bias_pointers)
        return client_fail(client, COORDGEN_E_NO_MEMORY, "", 0, "out of memory for %zu biases", n);
    for (size_t i = 0; i < n; i++) {
        sampling->biases[i] = (Coordgen__V1__LogitBias)COORDGEN__V1__LOGIT_BIAS__INIT;
        sampling->biases[i].has_token = sampling->biases[i].has_bias = true;
        sampling->biases[i].token = more->logit_bias[i].token;
        sampling->biases[i].bias = more->logit_bias[i].bias;
        sampling->bias_pointers[i] = &sampling->biases[i];
    }
    sampling->message.n_logit_bias = n;
    sampling->message.logit_bias = sampling->bias_pointers;
    return 0;
}

/* Fills in the breakers: NULL leaves them to the service, an empty list is a single empty text. */
static int breakers_fill(CoordgenClient *client, ClientSampling *sampling, const CoordgenSamplingOptions *more) {
    static char nothing[] = "", *none[] = { nothing };

    if (!more->dry_breakers && !more->n_dry_breakers)
        return 0;
    if (!more->dry_breakers)
        return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.sampling.dry_breaker", 0,
                           "%zu texts are given, which are NULL", more->n_dry_breakers);
    for (size_t i = 0; i < more->n_dry_breakers; i++)
        if (!more->dry_breakers[i] || !*more->dry_breakers[i])
            return client_fail(client, COORDGEN_E_INVALID_ARGUMENT, "generate.sampling.dry_breaker", 0,
                               "text %zu is NULL or empty", i);
    sampling->message.n_dry_breaker = more->n_dry_breakers ? more->n_dry_breakers : 1;
    sampling->message.dry_breaker = more->n_dry_breakers ? (char **)(uintptr_t)more->dry_breakers : none;
    return 0;
}

static int more_fill(CoordgenClient *client, ClientSampling *sampling, const CoordgenSamplingOptions *given) {
    Coordgen__V1__SamplingOptions *message = &sampling->message;
    CoordgenSamplingOptions more;
    int r;

    coordgen_sampling_options_init(&more);
    r = client_options_copy(client, &more, sizeof(more), given, sizeof(more));
    if (r)
        return r;
    message->has_presence_penalty = message->has_frequency_penalty = message->has_typical_p = true;
    message->has_xtc_probability = message->has_xtc_threshold = true;
    message->has_dry_multiplier = message->has_dry_base = true;
    message->has_dry_allowed_length = message->has_dry_window = true;
    message->presence_penalty = more.presence_penalty;
    message->frequency_penalty = more.frequency_penalty;
    message->typical_p = more.typical_p;
    message->xtc_probability = more.xtc_probability;
    message->xtc_threshold = more.xtc_threshold;
    message->dry_multiplier = more.dry_multiplier;
    message->dry_base = more.dry_base;
    message->dry_allowed_length = more.dry_allowed_length;
    message->dry_window = more.dry_window;
    r = breakers_fill(client, sampling, &more);
    return r ? r : biases_fill(client, sampling, &more);
}

int client_sampling_fill(CoordgenClient *client, ClientSampling *sampling, const CoordgenGenerateOptions *options) {
    Coordgen__V1__SamplingOptions *message = &sampling->message;

    *sampling = (ClientSampling){ .message = COORDGEN__V1__SAMPLING_OPTIONS__INIT };
    message->has_temperature = options->temperature != COORDGEN_UNSET;
    message->has_top_k = options->top_k != COORDGEN_UNSET_COUNT;
    message->has_top_p = options->top_p != COORDGEN_UNSET;
    message->has_min_p = options->min_p != COORDGEN_UNSET;
    message->has_repetition_penalty = options->repetition_penalty != COORDGEN_UNSET;
    message->has_repetition_window = options->repetition_window != COORDGEN_UNSET_COUNT;
    message->temperature = options->temperature;
    message->top_k = options->top_k;
    message->top_p = options->top_p;
    message->min_p = options->min_p;
    message->repetition_penalty = options->repetition_penalty;
    message->repetition_window = options->repetition_window;
    message->has_seed = options->has_seed;
    message->seed = options->has_seed ? options->seed : 0;
    return options->more_sampling ? more_fill(client, sampling, options->more_sampling) : 0;
}

void client_sampling_deinit(ClientSampling *sampling) {
    free(sampling->biases);
    free(sampling->bias_pointers);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

bool client_sampling_reply_fill(ClientSamplingReply *reply, const Coordgen__V1__SamplingOptions *message) {
    CoordgenSamplingOptions *options = &reply->options;

    coordgen_sampling_options_init(options);
    options->presence_penalty = message->presence_penalty;
    options->frequency_penalty = message->frequency_penalty;
    if (message->has_typical_p)
        options->typical_p = message->typical_p;
    options->xtc_probability = message->xtc_probability;
    if (message->has_xtc_threshold)
        options->xtc_threshold = message->xtc_threshold;
    options->dry_multiplier = message->dry_multiplier;
    if (message->has_dry_base)
        options->dry_base = message->dry_base;
    if (message->has_dry_allowed_length)
        options->dry_allowed_length = message->dry_allowed_length;
    options->dry_window = message->dry_window;
    options->dry_breakers = (const char *const *)message->dry_breaker;
    options->n_dry_breakers = message->n_dry_breaker && *message->dry_breaker[0] ? message->n_dry_breaker : 0;
    if (!message->n_logit_bias)
        return true;
    reply->biases = calloc(message->n_logit_bias, sizeof(*reply->biases));
    if (!reply->biases)
        return false;
    for (size_t i = 0; i < message->n_logit_bias; i++)
        reply->biases[i] = (CoordgenLogitBias){ message->logit_bias[i]->token, message->logit_bias[i]->bias };
    options->logit_bias = reply->biases;
    options->n_logit_bias = message->n_logit_bias;
    return true;
}

void client_sampling_reply_deinit(ClientSamplingReply *reply) {
    free(reply->biases);
}

/* ---- log probabilities ------------------------------------------------------------------------------------------- */

static CoordgenLogprob logprob_of(const Coordgen__V1__Logprob *message) {
    return (CoordgenLogprob){
        .token = message->token,
        .logprob = message->logprob,
        .piece = message->piece.data ? (const char *)message->piece.data : "",
        .piece_bytes = message->piece.len,
    };
}

int client_logprobs_fill(ClientLogprobs *logprobs, const Coordgen__V1__GenerateDelta *delta, CoordgenEvent *event) {
    size_t n_tops = 0;

    *logprobs = (ClientLogprobs){ 0 };
    if (!delta->n_logprobs)
        return 0;
    for (size_t i = 0; i < delta->n_logprobs; i++) {
        if (!delta->logprobs[i]->chosen)
            return COORDGEN_E_BAD_REPLY;
        n_tops += delta->logprobs[i]->n_top;
    }
    logprobs->tokens = calloc(delta->n_logprobs, sizeof(*logprobs->tokens));
    logprobs->tops = calloc(n_tops + 1, sizeof(*logprobs->tops));
    if (!logprobs->tokens || !logprobs->tops)
        return COORDGEN_E_NO_MEMORY;
    n_tops = 0;
    for (size_t i = 0; i < delta->n_logprobs; i++) {
        const Coordgen__V1__TokenLogprobs *from = delta->logprobs[i];

        logprobs->tokens[i] = (CoordgenTokenLogprobs){ .chosen = logprob_of(from->chosen),
                                                       .top = logprobs->tops + n_tops,
                                                       .n_top = from->n_top };
        for (size_t j = 0; j < from->n_top; j++)
            logprobs->tops[n_tops++] = logprob_of(from->top[j]);
    }
    event->logprobs = logprobs->tokens;
    event->n_logprobs = delta->n_logprobs;
    return 0;
}

void client_logprobs_deinit(ClientLogprobs *logprobs) {
    free(logprobs->tokens);
    free(logprobs->tops);
}
