// SPDX-License-Identifier: Apache-2.0
#include "importer/methods/calibrated_balance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "quant/format/grid.h"
#include "weights/attention_balance.h"

static int out_of_memory(const ImportModel *model, ErrText *err) {
    return err_set(err, -ENOMEM, "%s: out of memory for the balance of its attention", model->source_path);
}

static bool outputs_init(BalanceOutputs *outputs, size_t n) {
    *outputs = (BalanceOutputs){ .layer = -1, .scales = malloc(n * sizeof(float)), .bits = malloc(n) };
    return outputs->scales && outputs->bits;
}

int calibrated_balance_init(CalibratedBalance *balance, const ImportModel *model, ErrText *err) {
    const Hparams *hparams = &model->hparams;
    const size_t n = hparams->n_layers * hparams_dim(hparams, DIM_KV);

    balance->balances = malloc(n * sizeof(*balance->balances));
    if (!outputs_init(&balance->k, hparams_dim(hparams, DIM_KV)) ||
        !outputs_init(&balance->q, hparams_dim(hparams, DIM_HEADS)) || !balance->balances)
        return out_of_memory(model, err);
    for (size_t i = 0; i < n; i++)
        balance->balances[i] = 1;
    return 0;
}

void calibrated_balance_deinit(CalibratedBalance *balance) {
    free(balance->balances);
    free(balance->k.scales);
    free(balance->k.bits);
    free(balance->q.scales);
    free(balance->q.bits);
}

static BalanceMatrix matrix_of(const BalanceOutputs *outputs, const ImportModel *model, TensorRole role,
                               float *const *vectors) {
    const TensorRole bias = tensor_role_bias(role);

    return (BalanceMatrix){ .bias = bias == ROLE_NONE ? NULL : vectors[bias],
                            .scales = outputs->scales,
                            .bits = outputs->bits,
                            .grid = model->recipe->grid,
                            .k = model->hparams.n_embd };
}

int calibrated_balance_take(CalibratedBalance *balance, const ImportModel *model, const ImportLinear *linear,
                            const float *scales, const int8_t *bits, float *const *vectors, ErrText *err) {
    const size_t width = hparams_dim(&model->hparams, DIM_KV);
    BalanceOutputs *outputs = linear->role == ROLE_ATTN_K   ? &balance->k
                              : linear->role == ROLE_ATTN_Q ? &balance->q
                                                            : NULL;
    BalanceMatrix k, q;

    if (!outputs || linear->layer < 0)
        return 0;
    outputs->layer = linear->layer;
    memcpy(outputs->scales, scales, linear->n * sizeof(*scales));
    if (bits)
        memcpy(outputs->bits, bits, linear->n);
    else
        memset(outputs->bits, GRID_BITS_MAX, linear->n);
    if (balance->k.layer != balance->q.layer)
        return 0;
    k = matrix_of(&balance->k, model, ROLE_ATTN_K, vectors);
    q = matrix_of(&balance->q, model, ROLE_ATTN_Q, vectors);
    if (attention_balance(&model->hparams, (uint32_t)linear->layer, vectors, &k, &q,
                          balance->balances + (size_t)linear->layer * width))
        return out_of_memory(model, err);
    return 0;
}
