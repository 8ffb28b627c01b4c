// SPDX-License-Identifier: Apache-2.0
/* Whether quantization did a model harm: what its package says of the next token on a short text, beside the source in
 * float32. */
#ifndef COORDGEN_IMPORTER_QUANTIZATION_CHECK_H
#define COORDGEN_IMPORTER_QUANTIZATION_CHECK_H

#include "importer/check/divergence.h"

/* By the divergence in nats a token, which a short text tells better than a change of perplexity. docs/quantization.md
 * has what recipes come to. */
typedef enum QuantizationHarm {
    QUANTIZATION_HARM_NONE,   /* below 0.01: as 8 bits are */
    QUANTIZATION_HARM_LITTLE, /* below 0.05: as good recipes at 4 bits are */
    QUANTIZATION_HARM_SOME,   /* below 0.2: answers differ, and can be worse */
    QUANTIZATION_HARM_MUCH,
} QuantizationHarm;

QuantizationHarm quantization_harm_of(double nats);        /* no number: MUCH */
const char *quantization_harm_name(QuantizationHarm harm); /* "none", "little", "some", "much" */

typedef struct QuantizationCheckOptions {
    const char *package;            /* computed as the service does */
    const char *source;             /* the .gguf that it was made of: computed by the reference device */
    const char *text;               /* a file; NULL: the project's own, which no recipe is calibrated on */
    size_t n_windows;               /* of QUANTIZATION_CHECK_WINDOW tokens; 0: all that fit */
    unsigned int n_threads;         /* 0: one for every processor that this process may use */
    DivergenceProgressFn *progress; /* may be NULL */
    void *progress_arg;
} QuantizationCheckOptions;

enum {
    QUANTIZATION_CHECK_WINDOW = 256,
    QUANTIZATION_CHECK_N_WINDOWS = 2, /* what people wait for: some ten seconds for a billion weights */
};

/* 0; -EINVAL, -ENOMEM, another -errno or an ENGINE_E_*, with a text. */
int quantization_check(Divergence *result, const QuantizationCheckOptions *options, ErrText *err);

#endif
