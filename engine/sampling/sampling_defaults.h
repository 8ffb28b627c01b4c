// SPDX-License-Identifier: Apache-2.0
/* Sampling options that a model recommends, for requests that do not set them: from keys of its file, or from a table
 * of model families. */
#ifndef COORDGEN_ENGINE_SAMPLING_DEFAULTS_H
#define COORDGEN_ENGINE_SAMPLING_DEFAULTS_H

#include "engine/sampling/sampler.h"
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
    SAMPLING_FROM_SERVICE, /* SAMPLER_OPTIONS_GREEDY: neither request nor model sets the option */
    SAMPLING_FROM_REQUEST,
    SAMPLING_FROM_FILE,   /* keys general.sampling.* */
    SAMPLING_FROM_FAMILY, /* the table, for a file without such keys */
} SamplingOrigin;

/* What a model recommends. All zero: nothing. */
typedef struct SamplingDefaults {
    SamplerOptions options; /* without a seed */
    uint32_t fields;        /* bits 1 << SamplingField: the options that the model sets */
    SamplingOrigin origin;  /* of all these options */
    const char *family;     /* name of the table's row, a literal; NULL: no row */
} SamplingDefaults;

/* The options that take effect, and the origin of each. */
typedef struct SamplingChoice {
    SamplerOptions options;
    SamplingOrigin origins[_SAMPLING_FIELD_N];
    const char *family; /* name of the table's row if one was used, else NULL */
} SamplingChoice;

/* Reads the defaults of a source or a package. A value out of its range is logged and not used. */
void sampling_defaults_read(SamplingDefaults *defaults, const GgufFile *file);
/* Chooses the options of a request: those that the request sets (`fields`, bits) and its seed; others are the model's,
 * or the service's if the model sets none (defaults NULL: it is not asked) or the request sets temperature 0. */
void sampling_choose(SamplingChoice *choice, const SamplingDefaults *defaults, const SamplerOptions *request,
                     uint32_t fields);

#endif
