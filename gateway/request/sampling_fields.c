// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/sampling_fields.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/utf8.h"

#define AT(member) offsetof(GenerationRequest, member)

enum {
    LIST_MAX = 65536, /* the service has lower limits, and names them */
};

/* llama-server's seed that means "any". */
#define ANY_SEED 4294967295

static int set_seed(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    CoordgenGenerateOptions *options = target;
    json_int_t seed;

    if (!json_is_integer(value))
        return api_error_field(error, path, "%s must be an integer", path);
    seed = json_integer_value(value);
    options->has_seed = seed != -1 && seed != ANY_SEED;
    options->seed = options->has_seed ? (uint64_t)seed : 0;
    return 0;
}

/* Takes -1 as "off" or "all", which is 0 for the service. */
static int set_count(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    if (json_is_integer(value) && json_integer_value(value) == -1) {
        *(uint32_t *)target = 0;
        return 0;
    }
    return field_set_u32(field, value, target, path, error);
}

/* Takes 0 as the most probable token alone: OpenAI allows it, and the service's range begins above it. */
static int set_top_p(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    int r = field_set_float(field, value, target, path, error);

    if (!r && !(*(float *)target > 0))
        *(float *)target = FLT_MIN;
    return r;
}

/* ---- biases ------------------------------------------------------------------------------------------------------ */

static int read_bias(const json_t *value, const char *path, float *biasp, ApiError *error) {
    if (json_is_false(value)) {
        *biasp = -INFINITY;
        return 0;
    }
    if (!json_is_number(value))
        return api_error_field(error, path, "%s must be a number, or false: the token is never given", path);
    *biasp = (float)json_number_value(value);
    return 0;
}

/* Reads a token id from the key of an object. */
static bool read_id(const char *text, uint32_t *idp) {
    char *end;
    uintmax_t id;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    id = strtoumax(text, &end, 10);
    if (*end || errno || id > UINT32_MAX)
        return false;
    *idp = (uint32_t)id;
    return true;
}

/* Adds one bias: of a token id, or of the tokens of a text. */
static int add_bias(GenerationRequest *request, CoordgenLogitBias *biases, const char *text, uint32_t id, float bias,
                    const char *path, ApiError *error) {
    BiasText *of_text = &request->bias_texts[request->n_bias_texts];

    if (text) {
        of_text->bias = bias;
        request->n_bias_texts++;
        return token_texts_add(&request->texts, &request->owned, text, false, path, &of_text->text, error);
    }
    biases[request->sampling.n_logit_bias++] = (CoordgenLogitBias){ id, bias };
    return 0;
}

static int biases_of_object(GenerationRequest *request, const json_t *value, CoordgenLogitBias *biases,
                            const char *path, ApiError *error) {
    const char *key;
    json_t *json;
    FieldPath at;
    int r;

    json_object_foreach((json_t *)value, key, json) {
        uint32_t id = 0;
        const bool is_id = read_id(key, &id);
        float bias = 0;

        field_path(&at, "%s.%.*s", path, UTF8_PREFIX(key, 64));
        if (!*key)
            return api_error_field(error, path, "%s: a token is an id, or a text that is not empty", path);
        r = read_bias(json, at.text, &bias, error);
        if (!r)
            r = add_bias(request, biases, is_id ? NULL : key, id, bias, at.text, error);
        if (r)
            return r;
    }
    return 0;
}

static int biases_of_array(GenerationRequest *request, const json_t *value, CoordgenLogitBias *biases, const char *path,
                           ApiError *error) {
    FieldPath at;
    int r = 0;

    for (size_t i = 0; !r && i < json_array_size(value); i++) {
        const json_t *pair = json_array_get(value, i), *token = json_array_get(pair, 0);
        const char *text = json_string_value(token);
        const bool is_id =
            json_is_integer(token) && json_integer_value(token) >= 0 && json_integer_value(token) <= UINT32_MAX;
        float bias = 0;

        field_path(&at, "%s[%zu]", path, i);
        if (json_array_size(pair) != 2)
            return api_error_field(error, at.text, "%s must be a pair [token, bias]", at.text);
        if (!is_id && (!text || !*text || strlen(text) != json_string_length(token)))
            return api_error_field(error, at.text, "%s: a token is an id, or a text that is not empty", at.text);
        r = read_bias(json_array_get(pair, 1), at.text, &bias, error);
        if (!r)
            r = add_bias(request, biases, text, is_id ? (uint32_t)json_integer_value(token) : 0, bias, at.text, error);
    }
    return r;
}

static int set_logit_bias(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationRequest *request = target;
    const size_t n = json_is_object(value) ? json_object_size(value) : json_array_size(value);
    CoordgenLogitBias *biases;

    if (!json_is_object(value) && !json_is_array(value))
        return api_error_field(error, path, "%s must be an object {token: bias}, or an array of pairs [token, bias]",
                               path);
    if (n > LIST_MAX)
        return api_error_field(error, path, "%s has %zu tokens: send fewer", path, n);
    biases = owned_array(&request->owned, n, sizeof(*biases));
    request->bias_texts = owned_array(&request->owned, n, sizeof(*request->bias_texts));
    if (!biases || !request->bias_texts)
        return api_error_no_memory(error);
    request->n_bias_texts = request->sampling.n_logit_bias = 0;
    request->sampling.logit_bias = n ? biases : NULL;
    return json_is_object(value) ? biases_of_object(request, value, biases, path, error)
                                 : biases_of_array(request, value, biases, path, error);
}

int sampling_fields_join(GenerationRequest *request, ApiError *error) {
    size_t n = request->sampling.n_logit_bias;
    CoordgenLogitBias *biases;

    if (!request->n_bias_texts)
        return 0;
    for (size_t i = 0; i < request->n_bias_texts; i++)
        n += request->bias_texts[i].text->n_ids;
    biases = owned_array(&request->owned, n, sizeof(*biases));
    if (!biases)
        return api_error_no_memory(error);
    n = request->sampling.n_logit_bias;
    if (n)
        memcpy(biases, request->sampling.logit_bias, n * sizeof(*biases));
    for (size_t i = 0; i < request->n_bias_texts; i++)
        for (size_t k = 0; k < request->bias_texts[i].text->n_ids; k++)
            biases[n++] = (CoordgenLogitBias){ request->bias_texts[i].text->ids[k], request->bias_texts[i].bias };
    request->sampling.logit_bias = biases;
    request->sampling.n_logit_bias = n;
    return 0;
}

/* ---- DRY --------------------------------------------------------------------------------------------------------- */

static int set_breakers(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationRequest *request = target;
    const size_t n = json_array_size(value);
    const char **texts;
    FieldPath at;
    int r = 0;

    if (!json_is_array(value))
        return api_error_field(error, path, "%s must be an array of strings", path);
    if (n > LIST_MAX)
        return api_error_field(error, path, "%s has %zu texts: send fewer", path, n);
    texts = owned_array(&request->owned, n, sizeof(*texts));
    if (!texts)
        return api_error_no_memory(error);
    for (size_t i = 0; !r && i < n; i++) {
        r = field_set_text(field, json_array_get(value, i), &texts[i], field_path(&at, "%s[%zu]", path, i), error);
        if (!r && !*texts[i])
            r = api_error_field(error, at.text, "%s is empty", at.text);
    }
    request->sampling.dry_breakers = texts;
    request->sampling.n_dry_breakers = n;
    return r;
}

/* ---- the order of samplers --------------------------------------------------------------------------------------- */

/* Accepts only the order that is followed anyway. */
static int check_samplers(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    static const char *const order[] = { "penalties", "dry",   "top_n_sigma", "top_k",      "typ_p",
                                         "top_p",     "min_p", "xtc",         "temperature" };
    size_t i = 0;

    if (json_is_string(value) && !strcmp(json_string_value(value), "edskypmxt"))
        return 0;
    while (i < ARRAY_LEN(order) && json_is_string(json_array_get(value, i)) &&
           !strcmp(json_string_value(json_array_get(value, i)), order[i]))
        i++;
    if (i == ARRAY_LEN(order) && json_array_size(value) == i)
        return 0;
    return api_error_field(error, path, "%s: the order of samplers is fixed: leave it out", path);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const Field fields[] = {
    { "temperature", field_set_float, AT(options.temperature), 0, 100 },
    { "top_p", set_top_p, AT(options.top_p), 0, 1 },
    { "seed", set_seed, AT(options), 0, 0 },
    { "presence_penalty", field_set_float, AT(sampling.presence_penalty), -10, 10 },
    { "frequency_penalty", field_set_float, AT(sampling.frequency_penalty), -10, 10 },
    { "logit_bias", set_logit_bias, 0, 0, 0 },
    /* Fields of llama-server: */
    { "top_k", set_count, AT(options.top_k), 0, UINT32_MAX - 1.0 },
    { "min_p", field_set_float, AT(options.min_p), 0, 1 },
    { "typical_p", field_set_float, AT(sampling.typical_p), 0, 1 },
    { "repeat_penalty", field_set_float, AT(options.repetition_penalty), 0, 10 },
    { "repeat_last_n", field_set_i32, AT(json.repeat_last_n), -1, INT32_MAX },
    { "dry_multiplier", field_set_float, AT(sampling.dry_multiplier), 0, 100 },
    { "dry_base", field_set_float, AT(sampling.dry_base), 1, 10 },
    { "dry_allowed_length", field_set_u32, AT(sampling.dry_allowed_length), 0, UINT32_MAX },
    { "dry_penalty_last_n", field_set_i32, AT(json.dry_last_n), -1, INT32_MAX },
    { "dry_sequence_breakers", set_breakers, 0, 0, 0 },
    { "xtc_probability", field_set_float, AT(sampling.xtc_probability), 0, 1 },
    { "xtc_threshold", field_set_float, AT(sampling.xtc_threshold), 0, 1 },
    { "samplers", check_samplers, 0, 0, 0 },
    { "mirostat", field_only_number, 0, 0, 0 },
    { "mirostat_tau", NULL, 0, 0, 0 }, /* both are for mirostat alone */
    { "mirostat_eta", NULL, 0, 0, 0 },
    { "dynatemp_range", field_only_number, 0, 0, 0 },
    { "dynatemp_exponent", NULL, 0, 0, 0 }, /* for dynatemp_range alone */
    { "top_n_sigma", field_only_number, 0, -1, 0 },
    { "adaptive_target", field_only_number, 0, -1, 0 },
    { "adaptive_decay", NULL, 0, 0, 0 }, /* for adaptive_target alone */
    { "min_keep", field_only_number, 0, 0, 0 },
    { "backend_sampling", NULL, 0, 0, 0 }, /* where the sampler runs: the tokens are the same */
};
const FieldTable sampling_fields_table = { fields, ARRAY_LEN(fields) };

void sampling_fields_settle(GenerationRequest *request) {
    const GenerationJson *json = &request->json;

    /* llama-server's windows: 0 switches the penalty off, -1 has all tokens, which is 0 for the service. */
    if (json->repeat_last_n == 0)
        request->options.repetition_penalty = 1;
    else if (json->repeat_last_n != INT32_MIN)
        request->options.repetition_window = json->repeat_last_n < 0 ? 0 : (uint32_t)json->repeat_last_n;
    if (json->dry_last_n == 0)
        request->sampling.dry_multiplier = 0;
    else if (json->dry_last_n > 0)
        request->sampling.dry_window = (uint32_t)json->dry_last_n;
    if (request->sampling.xtc_threshold > 0.5f) { /* no two tokens can reach it */
        request->sampling.xtc_probability = 0;
        request->sampling.xtc_threshold = 0.5f;
    }
}
