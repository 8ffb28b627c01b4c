// SPDX-License-Identifier: Apache-2.0
/* How a model wants to be sampled where a request does not say: keys of its file, or a table of model families. */
#ifndef COORDGEN_ENGINE_SAMPLING_DEFAULTS_H
#define COORDGEN_ENGINE_SAMPLING_DEFAULTS_H

#include "engine/sampler.h"
#include "model/gguf/gguf.h"

typedef enum SamplingField {
    SAMPLING_TEMPERATURE,
    SAMPLING_TOP_K,
    SAMPLING_TOP_P,
    SAMPLING_MIN_P,
    SAMPLING_REPETITION_PENALTY,
    SAMPLING_REPETITION_WINDOW,
    _SAMPLING_FIELD_N,
} SamplingField;

typedef enum SamplingOrigin {
    SAMPLING_FROM_SERVICE, /* SAMPLER_OPTIONS_GREEDY: nobody says anything */
    SAMPLING_FROM_REQUEST,
    SAMPLING_FROM_FILE,   /* keys general.sampling.* */
    SAMPLING_FROM_FAMILY, /* the table, for a file without such keys */
} SamplingOrigin;

/* What a model says. All zero: nothing. */
typedef struct SamplingDefaults {
    SamplerOptions options; /* without a seed */
    uint32_t fields;        /* bits 1 << SamplingField: those of options that it says */
    SamplingOrigin origin;  /* of all of them */
    const char *family;     /* of the table's row, for ever; NULL: no row */
} SamplingDefaults;

/* What takes effect, and where each of it is from. */
typedef struct SamplingChoice {
    SamplerOptions options;
    SamplingOrigin origins[_SAMPLING_FIELD_N];
    const char *family; /* where the table was used, else NULL */
} SamplingChoice;

/* Reads them of a source or a package. A value out of its range is told in the log and not used. */
void sampling_defaults_read(SamplingDefaults *defaults, const GgufFile *file);
/* The request's options, of which it sets `fields` (bits), and its seed; the others are the model's, or the service's
 * where the model says nothing (NULL: it is not asked) or the request sets temperature 0. */
void sampling_choose(SamplingChoice *choice, const SamplingDefaults *defaults, const SamplerOptions *request,
                     uint32_t fields);

#endif
