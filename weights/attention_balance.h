// SPDX-License-Identifier: Apache-2.0
/* Balance of a layer's keys and queries, for caches of 8 bits (AttentionCall.balance; docs/numbers.md). */
#ifndef COORDGEN_WEIGHTS_ATTENTION_BALANCE_H
#define COORDGEN_WEIGHTS_ATTENTION_BALANCE_H

#include "model/hparams/hparams.h"
#include "model/package/package.h"

/* Computes a layer's balance from its norms, or from its biases and the scales of its matrices. vectors: f32, by role,
 * those of the layer. *balancep becomes f32[n_kv_heads * head_size], the caller's; NULL: all are 1. Returns 0, -ENOMEM
 * or PACKAGE_E_CORRUPT. */
int attention_balance(const Hparams *hparams, const Package *package, uint32_t layer, float *const *vectors,
                      float **balancep, ErrText *err);

#endif
