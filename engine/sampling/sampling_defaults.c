// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/sampling_defaults.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/min_max.h"

/* ---- families ---------------------------------------------------------------------------------------------------- */

typedef struct Family {
    const char *name;
    const char *architecture;
    const char *part; /* part of general.basename or general.name, as plain() writes them; NULL: any name fits */
    SamplerOptions options;
    uint32_t fields;
} Family;

#define T(x) .temperature = (x)
#define K(x) .top_k = (x)
#define P(x) .top_p = (x)
#define R(x) .repetition_penalty = (x)
#define W(x) .repetition_window = (x)
#define SAYS_T (1u << SAMPLING_TEMPERATURE)
#define SAYS_TP (SAYS_T | 1u << SAMPLING_TOP_P)
#define SAYS_TPRW (SAYS_TP | 1u << SAMPLING_REPETITION_PENALTY | 1u << SAMPLING_REPETITION_WINDOW)
#define SAYS_TKP (SAYS_TP | 1u << SAMPLING_TOP_K)
#define SAYS_TKPR (SAYS_TKP | 1u << SAMPLING_REPETITION_PENALTY)

/* The first row whose architecture and part fit counts. Sources: model cards and generation_config.json files of the
 * makers' instruction-tuned models, as they were in 2025. */
static const Family families[] = {
    /* Card of SmolLM2-135M-Instruct (360M, 1.7B and SmolLM say the same). The penalty is measured here: without it all
     * of 12 long answers of the 135M looped, with it none of 6. */
    { "smollm2", "llama", "smollm", { T(0.2f), P(0.9f), R(1.1f), W(256) }, SAYS_TPRW },
    /* Card of DeepSeek-R1-Distill-*: 0.5 to 0.7, "0.6 is recommended"; top_p of its generation_config.json. */
    { "deepseek-r1", "llama", "deepseek-r1", { T(0.6f), P(0.95f) }, SAYS_TP },
    { "deepseek-r1", "qwen2", "deepseek-r1", { T(0.6f), P(0.95f) }, SAYS_TP },
    /* Card of TinyLlama-1.1B-Chat-v1.0. */
    { "tinyllama", "llama", "tinyllama", { T(0.7f), K(50), P(0.95f) }, SAYS_TKP },
    /* Card of Mistral-Nemo-Instruct-2407: "we recommend to use a temperature of 0.3". */
    { "mistral-nemo", "llama", "mistral-nemo", { T(0.3f) }, SAYS_T },
    /* The maker's API has temperatures from 0 to 0.7 for its models; cards of Mistral-7B-Instruct say nothing. */
    { "mistral", "llama", "mistral", { T(0.7f) }, SAYS_T },
    /* generation_config.json of Llama-2-*-chat and Llama-3.*-Instruct. */
    { "llama", "llama", NULL, { T(0.6f), P(0.9f) }, SAYS_TP },
    /* generation_config.json of Qwen2.5-7B-Instruct; the smallest have 1.1 for the penalty. */
    { "qwen2", "qwen2", NULL, { T(0.7f), K(20), P(0.8f), R(1.05f) }, SAYS_TKPR },
    /* generation_config.json of Qwen3-*: of models that think. */
    { "qwen3", "qwen3", NULL, { T(0.6f), K(20), P(0.95f) }, SAYS_TKP },
    /* generation_config.json of gemma-3-*-it; the temperature 1 is the library's default. Gemma and Gemma 2 have no
     * such file and get the values of Gemma 3. */
    { "gemma3", "gemma3", NULL, { T(1), K(64), P(0.95f) }, SAYS_TKP },
    { "gemma3", "gemma2", NULL, { T(1), K(64), P(0.95f) }, SAYS_TKP },
    { "gemma3", "gemma", NULL, { T(1), K(64), P(0.95f) }, SAYS_TKP },
    /* Card of SmolLM3-3B. */
    { "smollm3", "smollm3", NULL, { T(0.6f), P(0.95f) }, SAYS_TP },
    /* Cards of Phi-3-mini-*-instruct and Phi-4-mini-instruct: "temperature": 0.0, do_sample false. */
    { "phi3", "phi3", NULL, { T(0) }, SAYS_T },
};

/* Returns a character of a name in one form: files write names with capitals or without, with spaces or hyphens. */
static char plain(char c) {
    return c == ' ' || c == '_' ? '-' : (char)tolower((unsigned char)c);
}

static bool contains(const GgufString *text, const char *part) {
    const size_t part_bytes = strlen(part);

    for (size_t at = 0; at + part_bytes <= text->len_bytes; at++) {
        size_t same = 0;

        while (same < part_bytes && plain(text->data[at + same]) == part[same])
            same++;
        if (same == part_bytes)
            return true;
    }
    return false;
}

static bool is_named(const GgufFile *file, const char *part) {
    static const char *const keys[] = { "general.basename", "general.name" };
    GgufString name;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (!gguf_get_string(file, keys[i], &name, NULL) && contains(&name, part))
            return true;
    return false;
}

/* Finds the file's row of the table; NULL: no row fits. */
static const Family *family_of(const GgufFile *file) {
    GgufString architecture;

    if (gguf_get_string(file, "general.architecture", &architecture, NULL))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        const Family *family = &families[i];

        if (strlen(family->architecture) == architecture.len_bytes &&
            !memcmp(family->architecture, architecture.data, architecture.len_bytes) &&
            (!family->part || is_named(file, family->part)))
            return family;
    }
    return NULL;
}

/* ---- keys of the file -------------------------------------------------------------------------------------------- */

/* SPEC: llama.cpp defines the keys and their values: a temperature of 0 or less is greedy, a top_k of 0 or less is off,
 * penalty_last_n is 0 for no penalty and negative for the whole context. */
static bool take_value(SamplerOptions *options, SamplingField field, float value) {
    const bool is_whole = value == truncf(value) && fabsf(value) < 0x1p24f; /* below that floats have all of them */

    switch (field) {
    case SAMPLING_TEMPERATURE:
        options->temperature = MAX(value, 0);
        break;
    case SAMPLING_TOP_K:
        options->top_k = is_whole && value > 0 ? (uint32_t)value : 0;
        return is_whole;
    case SAMPLING_TOP_P:
        options->top_p = value;
        break;
    case SAMPLING_MIN_P:
        options->min_p = value;
        break;
    case SAMPLING_REPETITION_PENALTY:
        options->repetition_penalty = value;
        break;
    case SAMPLING_REPETITION_WINDOW:
        options->repetition_window = is_whole && value > 0 ? (uint32_t)value : 0;
        return is_whole;
    case _SAMPLING_FIELD_N:
        break;
    }
    return isfinite(value) && !sampler_options_check(options, NULL);
}

/* Reads one key into options. Return: false if there is no such key, or if it cannot be used, which is logged. */
static bool read_key(const GgufFile *file, const char *name, SamplingField field, float *valuep,
                     SamplerOptions *options) {
    SamplerOptions tried = *options;
    ErrText err = { 0 };
    int r = gguf_get_f32(file, name, valuep, &err);

    if (r == GGUF_E_MISSING)
        return false;
    if (r) {
        log_warn(TOPIC_MODEL, "%s: it is not used: requests are sampled without it", err.text);
        return false;
    }
    if (!take_value(&tried, field, *valuep)) {
        log_warn(TOPIC_MODEL, "%s: key '%s' = %g is out of its range and not used: requests are sampled without it",
                 gguf_path(file), name, (double)*valuep);
        return false;
    }
    *options = tried;
    return true;
}

static void read_keys(SamplingDefaults *defaults, const GgufFile *file) {
    static const struct {
        const char *name;
        SamplingField field;
    } keys[] = {
        { "general.sampling.temp", SAMPLING_TEMPERATURE },
        { "general.sampling.top_k", SAMPLING_TOP_K },
        { "general.sampling.top_p", SAMPLING_TOP_P },
        { "general.sampling.min_p", SAMPLING_MIN_P },
        { "general.sampling.penalty_repeat", SAMPLING_REPETITION_PENALTY },
        { "general.sampling.penalty_last_n", SAMPLING_REPETITION_WINDOW },
    };
    float value;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (!read_key(file, keys[i].name, keys[i].field, &value, &defaults->options))
            continue;
        defaults->fields |= 1u << keys[i].field;
        if (keys[i].field == SAMPLING_REPETITION_WINDOW && value == 0) { /* our window of 0 means all tokens */
            defaults->options.repetition_penalty = 1;
            defaults->options.repetition_window = SAMPLER_OPTIONS_GREEDY.repetition_window;
            defaults->fields |= 1u << SAMPLING_REPETITION_PENALTY;
        }
    }
}

void sampling_defaults_read(SamplingDefaults *defaults, const GgufFile *file) {
    const Family *family;

    *defaults = (SamplingDefaults){ .options = SAMPLER_OPTIONS_GREEDY };
    read_keys(defaults, file);
    if (defaults->fields) {
        defaults->origin = SAMPLING_FROM_FILE;
        return;
    }
    family = family_of(file);
    if (family)
        *defaults = (SamplingDefaults){ family->options, family->fields, SAMPLING_FROM_FAMILY, family->name };
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

static void copy_field(SamplerOptions *to, const SamplerOptions *from, SamplingField field) {
    switch (field) {
    case SAMPLING_TEMPERATURE:
        to->temperature = from->temperature;
        break;
    case SAMPLING_TOP_K:
        to->top_k = from->top_k;
        break;
    case SAMPLING_TOP_P:
        to->top_p = from->top_p;
        break;
    case SAMPLING_MIN_P:
        to->min_p = from->min_p;
        break;
    case SAMPLING_REPETITION_PENALTY:
        to->repetition_penalty = from->repetition_penalty;
        break;
    case SAMPLING_REPETITION_WINDOW:
        to->repetition_window = from->repetition_window;
        break;
    case _SAMPLING_FIELD_N:
        break;
    }
}

/**
 * sampling_choose() - settle the options of one request
 *
 * Each field on its own is the request's, else the model's, else the service's. A request that sets temperature 0 wants
 * the likeliest tokens; a penalty that the model recommends for sampling would change them, so nothing is the model's
 * then. The request's options may be the choice's own. Thread: any.
 */
void sampling_choose(SamplingChoice *choice, const SamplingDefaults *defaults, const SamplerOptions *request,
                     uint32_t fields) {
    const bool is_greedy = fields >> SAMPLING_TEMPERATURE & 1 && request->temperature == 0;
    const SamplerOptions asked = *request;

    *choice = (SamplingChoice){ .options = asked }; /* what no model recommends is the request's */
    for (SamplingField field = 0; field < _SAMPLING_FIELD_N; field++) {
        copy_field(&choice->options, &SAMPLER_OPTIONS_GREEDY, field);
        if (fields >> field & 1) {
            copy_field(&choice->options, &asked, field);
            choice->origins[field] = SAMPLING_FROM_REQUEST;
        } else if (defaults && !is_greedy && defaults->fields >> field & 1) {
            copy_field(&choice->options, &defaults->options, field);
            choice->origins[field] = defaults->origin;
            choice->family = defaults->family;
        }
    }
}
