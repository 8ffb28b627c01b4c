// SPDX-License-Identifier: Apache-2.0
#include "gateway/plain/sampling_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strings/json_text.h"

/* Shows a float by its shortest decimal, and not by that of the double with the same value. */
static json_t *float_json(float value) {
    char text[32];

    snprintf(text, sizeof(text), "%.7g", (double)value);
    return json_real(strtod(text, NULL));
}

/* Shows a seed as a number, or as a text where readers of doubles would lose bits of it. */
static json_t *seed_json(uint64_t seed) {
    char text[24];

    if (seed <= UINT64_C(1) << 53)
        return json_integer((json_int_t)seed);
    snprintf(text, sizeof(text), "%" PRIu64, seed);
    return json_string(text);
}

static json_t *base_of(const CoordgenSamplingDefaults *sampling) {
    return json_pack("{so, sI, so, so, so, sI}", "temperature", float_json(sampling->temperature), "top_k",
                     (json_int_t)sampling->top_k, "top_p", float_json(sampling->top_p), "min_p",
                     float_json(sampling->min_p), "repeat_penalty", float_json(sampling->repetition_penalty),
                     "repeat_last_n", (json_int_t)sampling->repetition_window);
}

json_t *sampling_defaults_json(const CoordgenSamplingDefaults *sampling) {
    json_t *object = base_of(sampling);

    json_object_set_new(object, "n_predict", json_integer(-1));
    return object;
}

/* Adds options that are off in most requests. */
static void add_more(json_t *object, const CoordgenSamplingOptions *more) {
    json_object_set_new(object, "presence_penalty", float_json(more->presence_penalty));
    json_object_set_new(object, "frequency_penalty", float_json(more->frequency_penalty));
    json_object_set_new(object, "typical_p", float_json(more->typical_p));
    json_object_set_new(object, "xtc_probability", float_json(more->xtc_probability));
    json_object_set_new(object, "xtc_threshold", float_json(more->xtc_threshold));
    json_object_set_new(object, "dry_multiplier", float_json(more->dry_multiplier));
    json_object_set_new(object, "dry_base", float_json(more->dry_base));
    json_object_set_new(object, "dry_allowed_length", json_integer(more->dry_allowed_length));
    json_object_set_new(object, "dry_penalty_last_n", json_integer(more->dry_window));
}

/* Adds llama-server's samplers that the service does not have, as it shows those that are off. */
static void add_absent(json_t *object) {
    json_object_set_new(object, "dynatemp_range", json_real(0));
    json_object_set_new(object, "top_n_sigma", json_real(-1));
    json_object_set_new(object, "mirostat", json_integer(0));
    json_object_set_new(object, "adaptive_target", json_real(-1));
    json_object_set_new(object, "adaptive_decay", json_real(0));
}

json_t *sampling_json(const CoordgenGenerateResult *result, const GenerationRequest *request, uint64_t seed) {
    const CoordgenSamplingDefaults sampling = {
        .temperature = result->temperature,
        .top_k = result->top_k,
        .top_p = result->top_p,
        .min_p = result->min_p,
        .repetition_penalty = result->repetition_penalty,
        .repetition_window = result->repetition_window,
    };
    const CoordgenGenerateOptions *options = &request->options;
    json_t *object = base_of(&sampling), *stops = json_array();

    for (size_t i = 0; i < options->n_stops; i++)
        json_array_append_new(stops, json_text(options->stops[i]));
    json_object_set_new(object, "stop", stops);
    json_object_set_new(object, "seed", seed_json(seed));
    json_object_set_new(object, "n_predict", json_integer(result->max_tokens));
    json_object_set_new(object, "max_tokens", json_integer(result->max_tokens));
    json_object_set_new(object, "ignore_eos", json_boolean(options->ignore_end));
    json_object_set_new(object, "stream", json_boolean(request->wishes.is_stream));
    json_object_set_new(object, "n_probs",
                        json_integer(options->logprobs == COORDGEN_UNSET_COUNT ? 0 : options->logprobs));
    /* Programs for llama-server look for the settings of this way of sampling, which is off. */
    json_object_set_new(object, "adaptive_target", json_real(-1));
    json_object_set_new(object, "adaptive_decay", json_real(0));
    json_object_set_new(object, "timings_per_token", json_boolean(request->wishes.with_timings));
    if (options->constraint_kind == COORDGEN_CONSTRAINT_GBNF)
        json_object_set_new(object, "grammar", json_text(options->constraint));
    add_absent(object);
    if (result->more_sampling)
        add_more(object, result->more_sampling);
    return object;
}
