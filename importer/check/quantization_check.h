// SPDX-License-Identifier: Apache-2.0
/* Whether quantization did a model harm: compares its package's next-token distributions on a short text with those of
 * the source in float32. */
#ifndef COORDGEN_IMPORTER_QUANTIZATION_CHECK_H
#define COORDGEN_IMPORTER_QUANTIZATION_CHECK_H

#include "importer/check/divergence.h"

/* Harm by the divergence in nats a token, which a short text measures better than a change of perplexity.
 * docs/quantization.md has the divergence of each recipe. */
typedef enum QuantizationHarm {
    QUANTIZATION_HARM_NONE,   /* below 0.01: typical of 8 bits */
    QUANTIZATION_HARM_LITTLE, /* below 0.05: typical of good recipes at 4 bits */
    QUANTIZATION_HARM_SOME,   /* below 0.2: answers differ, and can be worse */
    QUANTIZATION_HARM_MUCH,
} QuantizationHarm;

QuantizationHarm quantization_harm_of(double nats);        /* NaN counts as MUCH */
const char *quantization_harm_name(QuantizationHarm harm); /* "none", "little", "some", "much" */

typedef struct QuantizationCheckOptions {
    const char *package;            /* computed as the service does */
    const char *source;             /* the .gguf that the package was made of: computed by the reference device */
    const char *text;               /* a file; NULL: the project's own text, which no recipe is calibrated on */
    size_t n_windows;               /* number of windows of QUANTIZATION_CHECK_WINDOW tokens; 0: all that fit */
    unsigned int n_threads;         /* 0: one for every processor that this process may use */
    DivergenceProgressFn *progress; /* may be NULL */
    void *progress_arg;
} QuantizationCheckOptions;

enum {
    QUANTIZATION_CHECK_WINDOW = 256,
    QUANTIZATION_CHECK_N_WINDOWS = 2, /* short enough to wait for: some ten seconds for a billion weights */
};

/* Measures the divergence. 0; -EINVAL, -ENOMEM, another -errno or an ENGINE_E_*, with a text. */
int quantization_check(Divergence *result, const QuantizationCheckOptions *options, ErrText *err);

#endif
