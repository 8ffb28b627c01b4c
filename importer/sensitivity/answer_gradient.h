// SPDX-License-Identifier: Apache-2.0
/* A gradient at the model's answers, where the backward pass through the layers begins. */
#ifndef COORDGEN_IMPORTER_ANSWER_GRADIENT_H
#define COORDGEN_IMPORTER_ANSWER_GRADIENT_H

#include "importer/methods/calibrated.h"

/* Writes d_stream, f32[n_rows of the walk][n_embd]: zero except for rows[n], whose answers are compared. The stream of
 * the walk stands behind the last layer. */
int answer_gradient(Calibrated *calibrated, LayerWalk *walk, const size_t *rows, size_t n, float *d_stream,
                    ErrText *err);

/* Turns logits f32[n] into a random direction z with E[z z^T] = diag(p) - p p^T, the Fisher matrix of the answer p =
 * softmax(logits). `seed` gives the signs. */
void answer_direction(float *logits, size_t n, uint64_t seed);

#endif
