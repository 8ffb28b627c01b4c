// SPDX-License-Identifier: Apache-2.0
/* Further ways of sampling: their options, and what takes effect of them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/decimal.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    BIASES_MAX = 1024, /* of the protocol */
};

void ctl_more_sampling_deinit(CtlMoreSampling *more) {
    free(more->biases);
}

/* Takes TOKEN=BIAS. */
static bool take_bias(const Ctl *ctl, const char *text, CoordgenLogitBias *biasp) {
    const char *equals = strchr(text, '=');
    char digits[24] = "";
    uint64_t token = 0;

    if (equals && (size_t)(equals - text) < sizeof(digits))
        memcpy(digits, text, (size_t)(equals - text));
    if (!equals || !decimal_parse_u64(digits, &token) || token > UINT32_MAX) {
        ctl_usage_error(ctl,
                        "--logit-bias=%.64s: TOKEN=BIAS is needed, such as 42=-1.5; coordgenctl tokenize tells "
                        "the numbers of tokens",
                        text);
        return false;
    }
    biasp->token = (uint32_t)token;
    if (!strcmp(equals + 1, "-inf")) {
        biasp->bias = -INFINITY;
        return true;
    }
    if (decimal_parse_float(equals + 1, &biasp->bias))
        return true;
    ctl_usage_error(ctl, "--logit-bias=%.64s: the bias is a number, or -inf for never", text);
    return false;
}

/* Takes the options that may be given several times. */
static bool take_lists(const Ctl *ctl, CtlMoreSampling *more) {
    CoordgenSamplingOptions *options = &more->options;

    for (size_t i = 0; i < ctl->n_values; i++) {
        const CtlValue *value = &ctl->values[i];

        if (!strcmp(value->option->name, "dry-breaker")) {
            if (options->n_dry_breakers == CTL_DRY_BREAKERS_MAX) {
                ctl_usage_error(ctl, "--dry-breaker: at most %d of them", CTL_DRY_BREAKERS_MAX);
                return false;
            }
            more->breakers[options->n_dry_breakers++] = value->text;
            options->dry_breakers = more->breakers;
        } else if (!strcmp(value->option->name, "logit-bias")) {
            if (options->n_logit_bias == BIASES_MAX) {
                ctl_usage_error(ctl, "--logit-bias: at most %d of them", BIASES_MAX);
                return false;
            }
            if (!more->biases && !(more->biases = calloc(BIASES_MAX, sizeof(*more->biases)))) {
                fputs("coordgenctl: out of memory\n", stderr);
                return false;
            }
            if (!take_bias(ctl, value->text, &more->biases[options->n_logit_bias++]))
                return false;
            options->logit_bias = more->biases;
        }
    }
    if (options->n_dry_breakers == 1 && !*more->breakers[0]) /* a single empty text: no breakers */
        options->n_dry_breakers = 0;
    return true;
}

bool ctl_more_sampling(const Ctl *ctl, CtlMoreSampling *more, CoordgenGenerateOptions *options) {
    uint64_t allowed_length, window = 0;

    coordgen_sampling_options_init(&more->options);
    allowed_length = more->options.dry_allowed_length;
    if (!ctl_float(ctl, "presence-penalty", &more->options.presence_penalty) ||
        !ctl_float(ctl, "frequency-penalty", &more->options.frequency_penalty) ||
        !ctl_float(ctl, "typical-p", &more->options.typical_p) ||
        !ctl_float(ctl, "xtc-probability", &more->options.xtc_probability) ||
        !ctl_float(ctl, "xtc-threshold", &more->options.xtc_threshold) ||
        !ctl_float(ctl, "dry-multiplier", &more->options.dry_multiplier) ||
        !ctl_float(ctl, "dry-base", &more->options.dry_base) ||
        !ctl_number(ctl, "dry-allowed-length", UINT32_MAX, &allowed_length) ||
        !ctl_number(ctl, "dry-window", UINT32_MAX, &window) || !take_lists(ctl, more))
        return false;
    more->options.dry_allowed_length = (uint32_t)allowed_length;
    more->options.dry_window = (uint32_t)window;
    options->more_sampling = &more->options;
    return true;
}

/* ---- what takes effect ------------------------------------------------------------------------------------------- */

void ctl_print_more_sampling(const CoordgenSamplingOptions *more) {
    if (more->presence_penalty != 0)
        fprintf(stderr, "presence-penalty %g, ", (double)more->presence_penalty);
    if (more->frequency_penalty != 0)
        fprintf(stderr, "frequency-penalty %g, ", (double)more->frequency_penalty);
    if (more->typical_p < 1)
        fprintf(stderr, "typical-p %g, ", (double)more->typical_p);
    if (more->xtc_probability > 0)
        fprintf(stderr, "xtc-probability %g from %g on, ", (double)more->xtc_probability, (double)more->xtc_threshold);
    if (more->dry_multiplier > 0)
        fprintf(stderr, "dry-multiplier %g, base %g, from %" PRIu32 " tokens on, ", (double)more->dry_multiplier,
                (double)more->dry_base, more->dry_allowed_length);
    if (more->n_logit_bias)
        fprintf(stderr, "logit-bias of %zu tokens, ", more->n_logit_bias);
}

static json_t *breakers_of(const CoordgenSamplingOptions *more) {
    json_t *list = json_array();

    for (size_t i = 0; i < more->n_dry_breakers; i++)
        json_array_append_new(list, ctl_json_text(more->dry_breakers[i], strlen(more->dry_breakers[i])));
    return list;
}

/* Returns the biases as an object of tokens; null stands for never. */
static json_t *biases_of(const CoordgenSamplingOptions *more) {
    json_t *object = json_object();
    char token[16];

    for (size_t i = 0; i < more->n_logit_bias; i++) {
        const float bias = more->logit_bias[i].bias;

        snprintf(token, sizeof(token), "%" PRIu32, more->logit_bias[i].token);
        ctl_json_set(object, token, isfinite(bias) ? json_real((double)bias) : json_null());
    }
    return object;
}

void ctl_json_more_sampling(json_t *sampling, const CoordgenSamplingOptions *more) {
    if (more->presence_penalty != 0)
        ctl_json_set(sampling, "presence_penalty", json_real((double)more->presence_penalty));
    if (more->frequency_penalty != 0)
        ctl_json_set(sampling, "frequency_penalty", json_real((double)more->frequency_penalty));
    if (more->typical_p < 1)
        ctl_json_set(sampling, "typical_p", json_real((double)more->typical_p));
    if (more->xtc_probability > 0) {
        ctl_json_set(sampling, "xtc_probability", json_real((double)more->xtc_probability));
        ctl_json_set(sampling, "xtc_threshold", json_real((double)more->xtc_threshold));
    }
    if (more->dry_multiplier > 0) {
        ctl_json_set(sampling, "dry_multiplier", json_real((double)more->dry_multiplier));
        ctl_json_set(sampling, "dry_base", json_real((double)more->dry_base));
        ctl_json_set(sampling, "dry_allowed_length", json_integer(more->dry_allowed_length));
        ctl_json_set(sampling, "dry_window", json_integer(more->dry_window));
        ctl_json_set(sampling, "dry_breakers", breakers_of(more));
    }
    if (more->n_logit_bias)
        ctl_json_set(sampling, "logit_bias", biases_of(more));
}
