// SPDX-License-Identifier: Apache-2.0
/* Kullback-Leibler divergence between the next-token distributions of two models, on the tokens of a text. The
 * divergence has a smaller relative standard error than a change of perplexity. */
#ifndef COORDGEN_IMPORTER_DIVERGENCE_H
#define COORDGEN_IMPORTER_DIVERGENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"
#include "importer/check/text_windows.h"

/* Means over the scored rows. Errors are standard errors, computed from the means of the windows; NaN for one
 * window. */
typedef struct Divergence {
    size_t n_windows, n_rows;
    double nats, nats_error; /* sum of p log(p / q): p of the other model, q of this one */
    double same_top;         /* share of the rows in which both models have the same most probable token */
    double loss, other_loss; /* negative log-likelihood of the token that follows, in nats; exp() is the perplexity */
    double loss_change, loss_change_error; /* difference of this model's nats from the other's, window by window */
} Divergence;

typedef void DivergenceProgressFn(void *arg, size_t window, size_t n_windows, double nats_so_far);

/* Measures the divergence of one engine from another, which may be the same engine. progress may be NULL. 0; -EINVAL
 * for models of different vocabularies, -ENOMEM, errors of engine_forward(); with a text. */
int divergence_measure(Divergence *result, Engine *engine, Engine *other, const TextWindows *windows,
                       DivergenceProgressFn *progress, void *arg, ErrText *err);
/* Divergence of one row: logits f32[n] of the model and of the other. same: whether the most probable token is the same
 * one (the lowest id of equal ones). */
double divergence_of_row(const float *logits, const float *other, size_t n, bool *same_topp);

#endif
