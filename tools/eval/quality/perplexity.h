// SPDX-License-Identifier: Apache-2.0
/* Measures the perplexity of a text in windows (importer/check/text_windows.h). */
#ifndef COORDGEN_EVAL_PERPLEXITY_H
#define COORDGEN_EVAL_PERPLEXITY_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"

typedef struct PerplexityOptions {
    const char *file;
    size_t window;  /* tokens, an even number from 4 on */
    size_t windows; /* windows from the start of the text; 0: all that fit */
    /* After every window; may be NULL. */
    void (*on_window)(void *arg, size_t index, double mean_nll, double perplexity_so_far);
    void *arg;
} PerplexityOptions;

typedef struct Perplexity {
    double value;
    double *means; /* [n_windows]: mean negative log-likelihood of each */
    size_t n_windows, window, n_scored;
    bool bos_replaces_first;
} Perplexity;

/* Measures the perplexity, which may be infinite or NaN. Return: 0, -EINVAL, -ENOMEM, another -errno or an ENGINE_E_*,
 * with a text. */
int perplexity_measure(Perplexity *result, Engine *engine, const PerplexityOptions *options, ErrText *err);
void perplexity_deinit(Perplexity *result);

#endif
