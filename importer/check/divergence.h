// SPDX-License-Identifier: Apache-2.0
/* How far a model's answers are from another's, on the tokens of a text: the Kullback-Leibler divergence of what they
 * say of the next token. Beside its size its standard error is smaller than that of a change of perplexity. */
#ifndef COORDGEN_IMPORTER_DIVERGENCE_H
#define COORDGEN_IMPORTER_DIVERGENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"
#include "importer/check/text_windows.h"

/* Means over the rows that are scored; errors are standard errors, from the means of the windows; NaN of one window. */
typedef struct Divergence {
    size_t n_windows, n_rows;
    double nats, nats_error;               /* sum of p log(p / q): p of the other model, q of this one */
    double same_top;                       /* part of the rows in which both hold the same token the most probable */
    double loss, other_loss;               /* of the token that follows, nats; exp() is the perplexity */
    double loss_change, loss_change_error; /* of this model's from the other's, window by window */
} Divergence;

typedef void DivergenceProgressFn(void *arg, size_t window, size_t n_windows, double nats_so_far);

/* Both engines have the same tokens; they may be the same engine. progress may be NULL. 0, -ENOMEM, what
 * engine_forward() gives; -EINVAL for models of different vocabularies: with a text. */
int divergence_measure(Divergence *result, Engine *engine, Engine *other, const TextWindows *windows,
                       DivergenceProgressFn *progress, void *arg, ErrText *err);
/* Of one row: logits f32[n] of the model and of the other; whether the most probable token is the same (the lowest id
 * of equal ones). */
double divergence_of_row(const float *logits, const float *other, size_t n, bool *same_topp);

#endif
