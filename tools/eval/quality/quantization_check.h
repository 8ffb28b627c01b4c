// SPDX-License-Identifier: Apache-2.0
/* Checks whether quantization did a model harm: the package's predictions on a short text beside the float32
 * source's. */
#ifndef COORDGEN_EVAL_QUANTIZATION_CHECK_H
#define COORDGEN_EVAL_QUANTIZATION_CHECK_H

#include "tools/eval/quality/divergence.h"

/* Degrees of harm by the divergence in nats a token, which a short text shows better than a change of perplexity.
 * docs/quantization.md has the values of recipes. */
typedef enum QuantizationHarm {
    QUANTIZATION_HARM_NONE,   /* below 0.01: as 8 bits are */
    QUANTIZATION_HARM_LITTLE, /* below 0.05: good recipes at 4 bits */
    QUANTIZATION_HARM_SOME,   /* below 0.2: answers differ and may be worse */
    QUANTIZATION_HARM_MUCH,
} QuantizationHarm;

QuantizationHarm quantization_harm_of(double nats);        /* no number: MUCH */
const char *quantization_harm_name(QuantizationHarm harm); /* "none", "little", "some", "much" */

typedef struct QuantizationCheckOptions {
    const char *package;            /* the package, computed as in the service */
    const char *source;             /* the package's source .gguf, computed by the reference device */
    const char *text;               /* a text file; NULL: the project's own text, which calibrates no recipe */
    size_t n_windows;               /* windows of QUANTIZATION_CHECK_WINDOW tokens; 0: all that fit */
    unsigned int n_threads;         /* 0: one for every processor that this process may use */
    DivergenceProgressFn *progress; /* may be NULL */
    void *progress_arg;
} QuantizationCheckOptions;

enum {
    QUANTIZATION_CHECK_WINDOW = 256,
    QUANTIZATION_CHECK_N_WINDOWS = 2, /* default: some ten seconds for a billion weights */
};

/* Measures the divergence of the package from its source. Return: 0, -EINVAL, -ENOMEM, another -errno or an ENGINE_E_*,
 * with a text. */
int quantization_check(Divergence *result, const QuantizationCheckOptions *options, ErrText *err);

#endif
