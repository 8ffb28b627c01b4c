// SPDX-License-Identifier: Apache-2.0
/* Balance of attention in the walks of calibration. The package's engine divides keys by powers of two that depend on
 * the integers of keys and queries. A walk computes the same powers as soon as it has these integers. */
#ifndef COORDGEN_IMPORTER_CALIBRATED_BALANCE_H
#define COORDGEN_IMPORTER_CALIBRATED_BALANCE_H

#include "importer/import_model.h"

/* Scales and widths of one matrix of the layer at work. */
typedef struct BalanceOutputs {
    int layer;     /* -1: none yet */
    float *scales; /* f32[n] */
    int8_t *bits;  /* [n] */
} BalanceOutputs;

typedef struct CalibratedBalance {
    float *balances; /* f32[n_layers][n_kv_heads * head_size], for layer_walk_set_balances(); ones at first */
    BalanceOutputs k, q;
} CalibratedBalance;

/* Makes room for a model's balances. Returns 0 or -ENOMEM; deinit also after an error. */
int calibrated_balance_init(CalibratedBalance *balance, const ImportModel *model, ErrText *err);
void calibrated_balance_deinit(CalibratedBalance *balance);
/* Takes scales f32[n] and widths [n] (NULL: 8 bits) of a linear that the walk goes on with. The second one of a layer's
 * keys and queries sets the layer's balance; other linears change nothing. vectors: those of the layer, by role.
 * Returns 0 or -ENOMEM. */
int calibrated_balance_take(CalibratedBalance *balance, const ImportModel *model, const ImportLinear *linear,
                            const float *scales, const int8_t *bits, float *const *vectors, ErrText *err);

#endif
