// SPDX-License-Identifier: Apache-2.0
/* The loss of a mapped hidden state: how far its shares of the candidates are from the target's, and the gradient. */
#ifndef COORDGEN_TRAIN_EXIT_LOSS_H
#define COORDGEN_TRAIN_EXIT_LOSS_H

#include "tools/train/exit_set.h"

/* The model's head and last norm. */
typedef struct ExitHead {
    const float *norm; /* f32[n_embd], weights of the last norm */
    float eps;
    size_t n_embd;
    float logit_cap;        /* soft cap; 0: none */
    const float *norm_bias; /* f32[n_embd], bias of a norm that subtracts the mean; or NULL */
    const float *bias;      /* f32[n_vocab], bias of the head; or NULL */
} ExitHead;

/* Computes logits[sample->n] of y f32[n_embd], normed as the model does. rows f32[sample->n][n_embd] are the head's
 * rows of the sample's tokens. */
void exit_logits(const ExitHead *head, const float *y, const ExitSample *sample, const float *rows, float *logits);
/* Returns the loss: the cross entropy with the target's shares of the candidates (distillation), plus that with its
 * first choice if it is a candidate, each with weight 1. A sample with fewer than two candidates has loss 0. gradient
 * f32[n_embd] is by y; NULL: not wanted. */
double exit_loss(const ExitHead *head, const float *y, const ExitSample *sample, const float *rows, float *gradient);

#endif
