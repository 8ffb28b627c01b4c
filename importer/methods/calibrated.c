// SPDX-License-Identifier: Apache-2.0
#include "importer/methods/calibrated.h"

#include <errno.h>
#include <stdlib.h>

#include "importer/import_rows.h"

/* bits: [n], or NULL: 8 bits. */
static int linear_new(Calibrated *calibrated, BackendLinear **linearp, const ImportLinear *linear, const int8_t *q,
                      const float *scales, const int8_t *bits, float *const *vectors,
                      const LinearActivations *activations, ErrText *err) {
    TensorRole bias = tensor_role_bias(linear->role);
    LinearSource source = {
        .name = linear->source->name,
        .n = linear->n,
        .k = linear->k,
        .type = GGML_I8,
        .data = q,
        .scales = scales,
        .rotation_block = linear->rotation_block,
        .bias = bias == ROLE_NONE ? NULL : vectors[bias],
        .activations = *activations,
    };
    int r = calibrated->backend->ops->linear_new(calibrated->backend, linearp, &source, err);

    if (r)
        return r > 0 ? IMPORT_E_CORRUPT : r;
    return calibrated_balance_take(&calibrated->balance, calibrated->model, linear, scales, bits, vectors, err);
}

int calibrated_linear_new(Calibrated *calibrated, BackendLinear **linearp, const ImportLinear *linear, const int8_t *q,
                          const float *scales, float *const *vectors, ErrText *err) {
    return linear_new(calibrated, linearp, linear, q, scales, NULL, vectors, &(LinearActivations){ 0 }, err);
}

/* Marks all channels as hot: columns in memory and columns read later give the same bits. */
int calibrated_linear_final(Calibrated *calibrated, BackendLinear **linearp, const ImportLinear *linear,
                            float *const *vectors, ErrText *err) {
    const ImportOperator *owner = linear->operator;
    _cleanup_(freep) int8_t *columns = NULL;
    _cleanup_(freep) uint32_t *hot = NULL;
    LinearActivations activations = { 0 };
    int r;

    if (owner) {
        activations.scale = owner->scale;
        activations.shadow = owner->shadow;
    }
    if (activations.shadow) {
        hot = malloc(linear->k * sizeof(*hot));
        if (!hot)
            return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", calibrated->model->source_path,
                           linear->source->name);
        for (size_t c = 0; c < linear->k; c++)
            hot[c] = (uint32_t)c;
        r = import_linear_columns(calibrated->model, linear, &columns, err);
        if (r)
            return r;
        activations.hot = hot;
        activations.n_hot = linear->k;
        activations.columns = columns;
    }
    return linear_new(calibrated, linearp, linear, linear->q, linear->scales, linear->bits, vectors, &activations, err);
}

void calibrated_linears_free(Calibrated *calibrated, BackendLinear **linears) {
    for (size_t role = 0; role < _ROLE_N; role++)
        linears[role] = calibrated->backend->ops->linear_free(linears[role]);
}

void calibrated_vectors_free(float **vectors) {
    for (size_t role = 0; role < _ROLE_N; role++) {
        free(vectors[role]);
        vectors[role] = NULL;
    }
}

int calibrated_vectors_read(Calibrated *calibrated, const ImportLayer *layer, float **vectors, ErrText *err) {
    for (size_t i = 0; i < layer->n_vectors; i++) {
        ImportVector vector = layer->vectors[i];
        int r;

        vector.values = vectors[vector.role] = malloc(vector.n * sizeof(*vector.values));
        if (!vector.values)
            return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", calibrated->model->source_path,
                           vector.source->name);
        r = import_read_vector(calibrated->model, &vector, err);
        if (r)
            return r;
    }
    return 0;
}

int calibrated_read(Calibrated *calibrated, const ImportLayer *layer, const ArchOp *op, float **w, ErrText *err) {
    for (size_t i = 0; i < op->n; i++) {
        const ImportLinear *linear = import_linear_of(layer, op->w[i]);
        int r;

        w[i] = malloc(linear->n * linear->k * sizeof(**w));
        if (!w[i])
            return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", calibrated->model->source_path,
                           linear->source->name);
        r = import_read_linear(calibrated->model, linear, w[i], err);
        if (r)
            return r;
    }
    return 0;
}

int calibrated_walk_new(Calibrated *calibrated, LayerWalk **walkp, size_t n_windows, ErrText *err) {
    int r = layer_walk_new(walkp, &calibrated->model->hparams, calibrated->backend, &calibrated->accounts,
                           calibrated->outside, n_windows, CALIBRATION_WINDOW_TOKENS, err);

    if (r)
        return r < 0 ? r : -ENOMEM;
    layer_walk_set_balances(*walkp, calibrated->balance.balances);
    layer_walk_embed(*walkp, calibrated->embedding, calibrated->tokens);
    return 0;
}
