// SPDX-License-Identifier: Apache-2.0
/* Rotary tables (RoPE) of a model for the positions of a batch. */
#ifndef COORDGEN_ENGINE_ROPE_ROWS_H
#define COORDGEN_ENGINE_ROPE_ROWS_H

#include "backends/batch.h"
#include "model/hparams/hparams.h"

/* Rotary tables of the positions of a batch. */
typedef struct RopeRows {
    double *freqs; /* f64[n_rot / 2] */
    float *cos;    /* f32[rows][n_rot / 2] */
    float *sin;
    float magnitude; /* factor of cos and sin */
} RopeRows;

/* Computes the frequencies; local: those of sliding-window layers. vectors: by role, outside the layers. */
void rope_rows_prepare(RopeRows *rope, const Hparams *hparams, bool local, float *const *vectors);
/* Fills rows of the tables, for the positions of these rows of the batch. */
void rope_rows_fill(const RopeRows *rope, size_t half, const Batch *batch, BatchRange rows);

#endif
