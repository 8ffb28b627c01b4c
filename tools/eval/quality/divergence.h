// SPDX-License-Identifier: Apache-2.0
/* Measures how far a model's predictions are from another's on a text: the Kullback-Leibler divergence of the next
 * token. Its relative standard error is smaller than that of a change of perplexity. */
#ifndef COORDGEN_EVAL_DIVERGENCE_H
#define COORDGEN_EVAL_DIVERGENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"
#include "tools/eval/quality/text_windows.h"

/* Means over the scored rows. Errors are standard errors of the windows' means; NaN for one window. */
typedef struct Divergence {
    size_t n_windows, n_rows;
    double nats, nats_error;               /* sum of p log(p / q): p of the other model, q of this one */
    double same_top;                       /* share of rows in which both have the same most probable token */
    double loss, other_loss;               /* nats, of the following token; exp() is the perplexity */
    double loss_change, loss_change_error; /* loss of this model over the other's, window by window */
} Divergence;

typedef void DivergenceProgressFn(void *arg, size_t window, size_t n_windows, double nats_so_far);

/* Measures the divergence of two engines with the same tokens, which may be the same engine; @progress may be NULL.
 * Return: 0, -ENOMEM, a code of engine_forward(), or -EINVAL for different vocabularies, with a text. */
int divergence_measure(Divergence *result, Engine *engine, Engine *other, const TextWindows *windows,
                       DivergenceProgressFn *progress, void *arg, ErrText *err);
/* Returns the divergence of one row from the logits f32[n] of the model and the other, and whether the most probable
 * token is the same (the lowest id of equal ones). */
double divergence_of_row(const float *logits, const float *other, size_t n, bool *same_topp);

#endif
