// SPDX-License-Identifier: Apache-2.0
/* Rounding with calibration: the model runs on rows of the calibration text while its weights become integers, operator
 * by operator. Every matrix is thus fitted to the inputs that the quantized layers before it give. */
#include "base/system/cpu.h"
#include "importer/import_rows.h"
#include "importer/methods/calibrated_profile.h"
#include "importer/methods/calibrated_round.h"
#include "importer/methods/calibrated_smooth.h"
#include "importer/methods/import_method.h"
#include "importer/sensitivity/sensitivity.h"
#include "importer/sensitivity/sensitivity_allocate.h"
#include "quant/rounding/blas.h"
#include "quant/smoothing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- begin and end ------------------------------------------------------------------------------------------------ */

/* Puts embedding or head on the device, with the integers that the core writes into the package. */
static int outside_linear_new(Calibrated *calibrated, BackendLinear **linearp, const ImportLinear *linear,
                              ErrText *err) {
    const ImportModel *model = calibrated->model;
    _cleanup_(freep) int8_t *q = malloc(linear->n * linear->k);
    _cleanup_(freep) float *scales = malloc(linear->n * sizeof(*scales));
    int r;

    if (!q || !scales)
        return err_set(err, -ENOMEM, "%s: out of memory for tensor '%s'", model->source_path, linear->source->name);
    r = import_round_rows(model, linear, 0, linear->n, q, scales, err);
    return r ? r : calibrated_linear_new(calibrated, linearp, linear, q, scales, calibrated->outside, err);
}

static int load_outside(Calibrated *calibrated, ErrText *err) {
    const ImportLayer *outside = &calibrated->model->layers[0];
    const ImportLinear *head = import_linear_of(outside, ROLE_OUTPUT);
    int r;

    r = calibrated_vectors_read(calibrated, outside, calibrated->outside, err);
    if (!r)
        r = outside_linear_new(calibrated, &calibrated->embedding, import_linear_of(outside, ROLE_TOKEN_EMBD), err);
    if (!r && head)
        r = outside_linear_new(calibrated, &calibrated->head, head, err);
    else if (!r)
        calibrated->head = calibrated->embedding;
    return r;
}

static int load_tokens(Calibrated *calibrated, ErrText *err) {
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    int r;

    r = tokenizer_new(&tokenizer, calibrated->model->source, err);
    if (r)
        return r < 0 ? r : IMPORT_E_UNSUPPORTED;
    r = calibration_windows(calibrated->model->calibration, tokenizer, CALIBRATION_WINDOWS, CALIBRATION_WINDOW_TOKENS,
                            &calibrated->tokens, &calibrated->n_windows, err);
    return r > 0 ? IMPORT_E_CALIBRATION : r;
}

static void calibrated_end(void *state) {
    Calibrated *calibrated = state;

    if (!calibrated)
        return;
    import_method_plain.end(calibrated->plain);
    free(calibrated->peaks);
    sensitivity_free(calibrated->sensitivity);
    layer_walk_free(calibrated->walk);
    calibrated_balance_deinit(&calibrated->balance);
    if (calibrated->backend) {
        if (calibrated->head != calibrated->embedding)
            calibrated->backend->ops->linear_free(calibrated->head);
        calibrated->backend->ops->linear_free(calibrated->embedding);
    }
    backend_free(calibrated->backend);
    calibrated_vectors_free(calibrated->outside);
    free(calibrated->tokens);
    free(calibrated);
}

static void calibrated_endp(Calibrated **calibratedp) {
    calibrated_end(*calibratedp);
}

static bool needs_blas(const QuantRecipe *recipe) {
    return quant_recipe_needs_moments(recipe) || recipe->allocation == QUANT_ALLOCATION_MODEL;
}

static int calibrated_begin(void **statep, const ImportModel *model, ErrText *err) {
    _cleanup_(calibrated_endp) Calibrated *calibrated = calloc(1, sizeof(*calibrated));
    uint32_t features;
    int r;

    if (!calibrated)
        return err_set(err, -ENOMEM, "%s: out of memory", model->source_path);
    calibrated->model = model;
    account_table_init(&calibrated->accounts);
    r = needs_blas(model->recipe) ? blas_load(err) : 0;
    if (!r)
        r = import_method_plain.begin(&calibrated->plain, model, err);
    if (!r)
        r = isa_select(ISA_BEST, &features, err);
    if (!r)
        r = backend_cpu_new(&calibrated->backend, features, model->pool, &calibrated->accounts, err);
    if (!r)
        r = load_tokens(calibrated, err);
    if (!r)
        r = calibrated_balance_init(&calibrated->balance, model, err);
    if (!r)
        r = load_outside(calibrated, err);
    if (r)
        return r;
    *statep = steal(&calibrated);
    return 0;
}

/* --- layers ------------------------------------------------------------------------------------------------------- */

static int calibrated_allocate(void *state, const ImportModel *model, ErrText *err) {
    Calibrated *calibrated = state;
    int r;

    if (model->recipe->allocation == QUANT_ALLOCATION_TENSOR && model->recipe->smooth)
        return calibrated_allocate_smoothed(calibrated, err);
    if (model->recipe->allocation != QUANT_ALLOCATION_MODEL)
        return import_method_plain.allocate(calibrated->plain, model, err);
    if (!calibrated->sensitivity) {
        r = sensitivity_measure(&calibrated->sensitivity, calibrated, err);
        if (r)
            return r;
    }
    return sensitivity_allocate(calibrated->sensitivity, calibrated, model->bits, err);
}

static int calibrated_make_profile(void *state, const ImportModel *model, ErrText *err) {
    return calibrated_profile(state, err);
}

typedef struct LayerWork {
    Calibrated *calibrated;
    const ImportLayer *layer;
    float **vectors; /* [_ROLE_N], the core's */
    size_t n_done;   /* linears */
} LayerWork;

static int quantize_linear(LayerWork *work, const ImportLinear *linear, const float *w, const HessianFactor *factor,
                           BackendLinear **linearp, ErrText *err) {
    CalibratedRounding rounding = { linear, factor, w, linear->bits, linear->q, linear->scales, NULL };
    int r;

    r = calibrated_round(work->calibrated, &rounding, err);
    if (!r)
        r = calibrated_linear_final(work->calibrated, linearp, linear, work->vectors, err);
    import_monitor_part(work->calibrated->model->monitor, (double)++work->n_done / (double)work->layer->n_linears);
    return r;
}

/* Smooths the input: multiplies the weights by the factors and folds the factors into the operator before. */
static int smooth_op(LayerWork *work, const ArchOp *op, float *x, size_t rows, size_t k, float *const *w,
                     ErrText *err) {
    Calibrated *calibrated = work->calibrated;
    _cleanup_(freep) float *factors = malloc(k * sizeof(*factors));
    int r;

    if (!factors)
        return err_set(err, -ENOMEM, "%s: out of memory", calibrated->model->source_path);
    r = calibrated_smoothing(calibrated, work->layer, op, x, rows, k, w, true, factors, err);
    if (!r)
        r = calibrated_fold(calibrated, work->layer, op, x, rows, k, factors, work->vectors, err);
    for (size_t i = 0; i < op->n && !r; i++)
        smoothing_multiply_columns(w[i], import_linear_of(work->layer, op->w[i])->n, k, factors);
    return r;
}

static int quantize_weights(LayerWork *work, const ArchOp *op, float *x, size_t rows, size_t k, float *const *w,
                            BackendLinear **linears, ErrText *err) {
    Calibrated *calibrated = work->calibrated;
    const QuantRecipe *recipe = calibrated->model->recipe;
    _cleanup_(hessian_factor_deinit) HessianFactor factor = { 0 };
    int r = 0;

    if (recipe->smooth)
        r = smooth_op(work, op, x, rows, k, w, err);
    if (!r && quant_recipe_needs_moments(recipe))
        r = calibrated_factor(calibrated, &factor, x, rows, k, import_linear_of(work->layer, op->w[0])->rotation_block,
                              err);
    for (size_t i = 0; i < op->n && !r; i++)
        r = quantize_linear(work, import_linear_of(work->layer, op->w[i]), w[i],
                            quant_recipe_needs_moments(recipe) ? &factor : NULL, &linears[op->w[i]], err);
    return r;
}

/* Quantizes the linears that share an input, as soon as the input is there. */
static int quantize_op(void *arg, const ArchOp *op, float *x, size_t rows, size_t k, BackendLinear **linears,
                       ErrText *err) {
    LayerWork *work = arg;
    float *w[OP_WEIGHTS_MAX] = { 0 };
    int r;

    r = import_monitor_check(work->calibrated->model->monitor, err);
    if (r)
        return r;
    r = calibrated_read(work->calibrated, work->layer, op, w, err);
    if (!r)
        r = quantize_weights(work, op, x, rows, k, w, linears, err);
    for (size_t i = 0; i < op->n; i++)
        free(w[i]);
    return r;
}

/* Loads the linears of a layer that was made before. */
static int load_op(void *arg, const ArchOp *op, float *x, size_t rows, size_t k, BackendLinear **linears,
                   ErrText *err) {
    LayerWork *work = arg;
    int r = import_monitor_check(work->calibrated->model->monitor, err);

    for (size_t i = 0; i < op->n && !r; i++)
        r = calibrated_linear_final(work->calibrated, &linears[op->w[i]], import_linear_of(work->layer, op->w[i]),
                                    work->vectors, err);
    return r;
}

static int ensure_walk(Calibrated *calibrated, ErrText *err) {
    return calibrated->walk ? 0 : calibrated_walk_new(calibrated, &calibrated->walk, calibrated->n_windows, err);
}

static int walk_layer(Calibrated *calibrated, const ImportLayer *layer, LayerWalkFn *fn, ErrText *err) {
    BackendLinear *linears[_ROLE_N] = { 0 };
    float *vectors[_ROLE_N] = { 0 };
    LayerWork work = { calibrated, layer, vectors, 0 };
    int r;

    if (layer->layer < 0)
        return 0;
    r = ensure_walk(calibrated, err);
    if (r)
        return r;
    for (size_t i = 0; i < layer->n_vectors; i++)
        vectors[layer->vectors[i].role] = layer->vectors[i].values;
    r = layer_walk_layer(calibrated->walk, (uint32_t)layer->layer, linears, vectors, fn, &work, err);
    calibrated_linears_free(calibrated, linears);
    return r;
}

/* Walks a smoothed layer twice. Factors are folded into a layer after its rows passed, which changes the last bits of
 * the stream; a resumed import sees the layer only as it was written. The second pass, through the whole layer, gives
 * the same stream in both cases. */
static int quantize_smoothed(Calibrated *calibrated, const ImportLayer *layer, ErrText *err) {
    size_t len_bytes =
        calibrated->n_windows * CALIBRATION_WINDOW_TOKENS * calibrated->model->hparams.n_embd * sizeof(float);
    _cleanup_(freep) float *stream = malloc(len_bytes);
    int r;

    if (!stream)
        return err_set(err, -ENOMEM, "%s: out of memory", calibrated->model->source_path);
    r = ensure_walk(calibrated, err);
    if (r)
        return r;
    memcpy(stream, layer_walk_stream(calibrated->walk), len_bytes);
    r = walk_layer(calibrated, layer, quantize_op, err);
    memcpy(layer_walk_stream(calibrated->walk), stream, len_bytes);
    return r ? r : walk_layer(calibrated, layer, load_op, err);
}

static int calibrated_quantize(void *state, const ImportModel *model, const ImportLayer *layer, ErrText *err) {
    if (layer->layer >= 0 && model->recipe->smooth)
        return quantize_smoothed(state, layer, err);
    return walk_layer(state, layer, quantize_op, err);
}

static int calibrated_skip(void *state, const ImportModel *model, const ImportLayer *layer, ErrText *err) {
    return walk_layer(state, layer, load_op, err);
}

const ImportMethod import_method_calibrated = {
    .begin = calibrated_begin,
    .end = calibrated_end,
    .profile = calibrated_make_profile,
    .allocate = calibrated_allocate,
    .quantize = calibrated_quantize,
    .skip = calibrated_skip,
};
