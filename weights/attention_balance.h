// SPDX-License-Identifier: Apache-2.0
/* Balance of a layer's keys and queries, for caches of 8 bits (AttentionCall.balance; docs/numbers.md). */
#ifndef COORDGEN_WEIGHTS_ATTENTION_BALANCE_H
#define COORDGEN_WEIGHTS_ATTENTION_BALANCE_H

#include "model/hparams/hparams.h"
#include "model/package/package.h"
#include "quant/format/grid.h"

/* The matrix of a layer's keys or queries, as far as balance depends on it. Arrays are the caller's. */
typedef struct BalanceMatrix {
    const float *bias;   /* f32[n]; NULL: the matrix has none */
    const float *scales; /* f32[n] */
    const int8_t *bits;  /* [n]: widths of the channels; NULL: 8 bits each */
    Grid grid;
    size_t k; /* inputs */
} BalanceMatrix;

/* Computes a layer's balance f32[n_kv_heads * head_size] from the norms of keys and queries, or from the biases and
 * scales of their matrices. Models with neither have ones. vectors: f32, by role, those of the layer. Returns 0 or
 * -ENOMEM. */
int attention_balance(const Hparams *hparams, uint32_t layer, float *const *vectors, const BalanceMatrix *k,
                      const BalanceMatrix *q, float *balance);
/* Computes a layer's balance with the matrices of a package. *balancep becomes f32[n_kv_heads * head_size], the
 * caller's; NULL: all are 1. Returns 0, -ENOMEM or PACKAGE_E_CORRUPT. */
int attention_balance_of_package(const Hparams *hparams, const Package *package, uint32_t layer, float *const *vectors,
                                 float **balancep, ErrText *err);

#endif
