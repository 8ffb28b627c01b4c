// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/sampler_options.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

static bool is_within(float value, float least, float most) {
    return value >= least && value <= most; /* a NaN is not */
}

/* Checks the options that change logits: 0 or SAMPLER_E_OPTIONS. */
static int check_penalties(const SamplerOptions *options, ErrText *err) {
    if (!(options->repetition_penalty > 0 && options->repetition_penalty <= 10))
        return err_set(err, SAMPLER_E_OPTIONS, "repetition_penalty %g is outside (0, 10]",
                       (double)options->repetition_penalty);
    if (!is_within(options->presence_penalty, -10, 10))
        return err_set(err, SAMPLER_E_OPTIONS, "presence_penalty %g is outside -10..10",
                       (double)options->presence_penalty);
    if (!is_within(options->frequency_penalty, -10, 10))
        return err_set(err, SAMPLER_E_OPTIONS, "frequency_penalty %g is outside -10..10",
                       (double)options->frequency_penalty);
    if (options->n_biases > SAMPLER_BIASES_MAX)
        return err_set(err, SAMPLER_E_OPTIONS, "logit_bias has %zu tokens; at most %d are allowed", options->n_biases,
                       SAMPLER_BIASES_MAX);
    for (size_t i = 0; i < options->n_biases; i++)
        if (options->biases[i].bias != -INFINITY &&
            !is_within(options->biases[i].bias, -SAMPLER_BIAS_MAX, SAMPLER_BIAS_MAX))
            return err_set(err, SAMPLER_E_OPTIONS, "logit_bias %g of token %u is outside -%d..%d and not -infinity",
                           (double)options->biases[i].bias, options->biases[i].token, SAMPLER_BIAS_MAX,
                           SAMPLER_BIAS_MAX);
    return dry_options_check(&options->dry, err) ? SAMPLER_E_OPTIONS : 0;
}

int sampler_options_check(const SamplerOptions *options, ErrText *err) {
    if (!(options->temperature >= 0 && options->temperature <= 100))
        return err_set(err, SAMPLER_E_OPTIONS, "temperature %g is outside 0..100", (double)options->temperature);
    if (!(options->top_p > 0 && options->top_p <= 1))
        return err_set(err, SAMPLER_E_OPTIONS, "top_p %g is outside (0, 1]", (double)options->top_p);
    if (!(options->min_p >= 0 && options->min_p < 1))
        return err_set(err, SAMPLER_E_OPTIONS, "min_p %g is outside [0, 1)", (double)options->min_p);
    if (!is_within(options->typical_p, 0, 1))
        return err_set(err, SAMPLER_E_OPTIONS, "typical_p %g is outside (0, 1]", (double)options->typical_p);
    if (!is_within(options->xtc_probability, 0, 1))
        return err_set(err, SAMPLER_E_OPTIONS, "xtc_probability %g is outside 0..1", (double)options->xtc_probability);
    if (!is_within(options->xtc_threshold, 0, 0.5f))
        return err_set(err, SAMPLER_E_OPTIONS, "xtc_threshold %g is outside 0..0.5", (double)options->xtc_threshold);
    return check_penalties(options, err);
}
