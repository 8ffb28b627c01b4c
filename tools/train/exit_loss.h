// SPDX-License-Identifier: Apache-2.0
/* What a mapped hidden state says of its candidates, how far that is from what the target says, and the way down. */
#ifndef COORDGEN_TRAIN_EXIT_LOSS_H
#define COORDGEN_TRAIN_EXIT_LOSS_H

#include "tools/train/exit_set.h"

/* Of the model. */
typedef struct ExitHead {
    const float *norm; /* f32[n_embd] of the last norm */
    float eps;
    size_t n_embd;
    float logit_cap;        /* soft cap; 0: none */
    const float *norm_bias; /* f32[n_embd]: the norm takes the mean off, and adds this; or NULL */
    const float *bias;      /* f32[n_vocab] of the head, or NULL */
} ExitHead;

/* logits[sample->n] of y f32[n_embd], normed as the model does; rows f32[sample->n][n_embd]: the head's, of the
 * sample's tokens. */
void exit_logits(const ExitHead *head, const float *y, const ExitSample *sample, const float *rows, float *logits);
/* Cross entropy with the target's shares among the candidates (distillation), and with its first choice where that is
 * one of them, each with weight 1; a sample with less than two candidates has none. gradient f32[n_embd]: by y; NULL:
 * not wanted. */
double exit_loss(const ExitHead *head, const float *y, const ExitSample *sample, const float *rows, float *gradient);

#endif
