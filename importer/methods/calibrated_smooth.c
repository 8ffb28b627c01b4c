// SPDX-License-Identifier: Apache-2.0
#include "importer/methods/calibrated_smooth.h"

/* EdgeFlow's smoothing inside the calibrated method. The input of an operator gets factors, which are folded into the
 * operator before it (quant/smoothing.h has the table). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "importer/methods/calibrated_round.h"
#include "quant/format/grid.h"
#include "quant/bit_allocation.h"
#include "quant/relative_error.h"
#include "quant/smoothing.h"

static int failed(const Calibrated *calibrated, const ImportLinear *linear, int r, ErrText *err) {
    const char *path = calibrated->model->source_path;

    if (r > 0)
        return err_set(err, IMPORT_E_CORRUPT,
                       "%s: tensor '%s' or its inputs on the calibration text hold a value that is not finite: the "
                       "file is damaged, download it again",
                       path, linear->source->name);
    return err_set(err, r, "%s: tensor '%s' cannot be smoothed: %s", path, linear->source->name, strerror(-r));
}

/* Finds the operator that makes the input of op and can be divided by factors. NULL: a non-linear operator lies
 * between. */
static const ArchOp *maker_of(const Arch *arch, const ArchOp *op) {
    const ArchOp *maker = op;

    while (maker > arch->ops) {
        maker--;
        if (maker->kind == OP_ATTENTION ? op->in == SLOT_Q
            : maker->kind == OP_GATED   ? op->in == SLOT_GATE
                                        : maker->kind == OP_NORM && maker->out[0] == op->in)
            return maker;
    }
    return NULL;
}

/**
 * calibrated_smoothing() - find factors for the input of the linears of an operator
 * @x:       f32[rows][k], the input on the calibration rows
 * @w:       weights of op->w[i], f32[n_i][k]
 * @by_bits: judge alpha at the widths that the linears have; otherwise at those that Algorithm 1 gives for the average
 * @factors: out, f32[k]; all 1 if no operator before can take them
 */
int calibrated_smoothing(Calibrated *calibrated, const ImportLayer *layer, const ArchOp *op, const float *x,
                         size_t rows, size_t k, float *const *w, bool by_bits, float *factors, ErrText *err) {
    const ImportModel *model = calibrated->model;
    const Hparams *hparams = &model->hparams;
    _cleanup_(freep) float *maxima = calloc(k, sizeof(*maxima));
    SmoothingLinear linears[OP_WEIGHTS_MAX];
    SmoothingGroup group = {
        .x = x,
        .rows = rows,
        .k = k,
        .maxima = maxima,
        .linears = linears,
        .n_linears = op->n,
        .average_bits = model->bits,
        .grid = model->recipe->grid,
        .search_scales = model->recipe->search_scales,
    };
    const ImportLinear *first = import_linear_of(layer, op->w[0]);
    double alpha;
    int r;

    if (!maker_of(hparams->arch, op)) {
        for (size_t i = 0; i < k; i++)
            factors[i] = 1;
        return 0;
    }
    if (!maxima)
        return failed(calibrated, first, -ENOMEM, err);
    smoothing_maxima(x, rows, k, maxima);
    if (op->w[0] == ROLE_ATTN_OUTPUT)
        smoothing_share_heads(maxima, hparams->n_heads, hparams->n_kv_heads, hparams->head_size);
    for (size_t i = 0; i < op->n; i++) {
        const ImportLinear *linear = import_linear_of(layer, op->w[i]);

        linears[i] = (SmoothingLinear){ w[i], linear->n, by_bits ? linear->bits : NULL };
    }
    r = smoothing_search(&group, model->pool, &alpha, factors);
    return r ? failed(calibrated, first, r, err) : 0;
}

static void divide_outputs(const ImportLinear *linear, const float *factors, float *const *vectors) {
    const TensorRole bias = tensor_role_bias(linear->role);

    smoothing_divide(linear->scales, linear->n, factors);
    if (bias != ROLE_NONE && vectors[bias])
        smoothing_divide(vectors[bias], linear->n, factors);
}

static void divide_norm(TensorRole role, size_t k, const float *factors, float *const *vectors) {
    const TensorRole bias = tensor_role_bias(role);

    smoothing_divide(vectors[role], k, factors);
    if (bias != ROLE_NONE && vectors[bias])
        smoothing_divide(vectors[bias], k, factors);
}

static int divide_values(Calibrated *calibrated, const ImportLayer *layer, const float *factors, float *const *vectors,
                         ErrText *err) {
    const Hparams *hparams = &calibrated->model->hparams;
    const ImportLinear *values = import_linear_of(layer, ROLE_ATTN_V);
    _cleanup_(freep) float *value_factors = malloc(values->n * sizeof(*value_factors));

    if (!value_factors)
        return failed(calibrated, values, -ENOMEM, err);
    smoothing_value_factors(factors, hparams->n_heads, hparams->n_kv_heads, hparams->head_size, value_factors);
    divide_outputs(values, value_factors, vectors);
    return 0;
}

/**
 * calibrated_fold() - divide the operator that makes an input by the factors of that input
 *
 * The weights of that operator are integers already: dividing their scales has the same effect. x is divided too, so
 * that the walk goes on with the changed model. No norm is folded into twice, because every norm feeds one operator.
 */
int calibrated_fold(Calibrated *calibrated, const ImportLayer *layer, const ArchOp *op, float *x, size_t rows, size_t k,
                    const float *factors, float *const *vectors, ErrText *err) {
    const ArchOp *maker = maker_of(calibrated->model->hparams.arch, op);
    int r = 0;

    if (!maker) /* the factors are all 1 */
        return 0;
    if (maker->kind == OP_NORM)
        divide_norm(maker->w[0], k, factors, vectors);
    else if (maker->kind == OP_GATED)
        divide_outputs(import_linear_of(layer, ROLE_FFN_UP), factors, vectors);
    else
        r = divide_values(calibrated, layer, factors, vectors, err);
    if (!r)
        smoothing_divide_columns(x, rows, k, factors);
    return r;
}

/* --- Algorithm 1 on smoothed weights ------------------------------------------------------------------------------ */

typedef struct SmoothedPeaks {
    Calibrated *calibrated;
    const ImportLayer *layer;
    float **vectors;
    double *peaks; /* peaks of the next linear's channels */
} SmoothedPeaks;

/* Measures the peaks of the smoothed weights; the walk itself goes on with plain 8 bits. */
static int measure_linear(SmoothedPeaks *peaks, const ImportLinear *linear, float *w, const float *factors,
                          BackendLinear **linearp, ErrText *err) {
    Calibrated *calibrated = peaks->calibrated;
    size_t n = linear->n, k = linear->k;
    _cleanup_(freep) float *scales = malloc(n * sizeof(*scales));
    _cleanup_(freep) int8_t *q = malloc(n * k);
    _cleanup_(freep) int8_t *bits = malloc(n);
    CalibratedRounding rounding = { linear, NULL, w, bits, q, scales, NULL };
    int r;

    if (!scales || !q || !bits)
        return failed(calibrated, linear, -ENOMEM, err);
    memset(bits, GRID_BITS_MAX, n);
    r = calibrated_round(calibrated, &rounding, err);
    if (!r)
        r = calibrated_linear_new(calibrated, linearp, linear, q, scales, peaks->vectors, err);
    if (r)
        return r;
    smoothing_multiply_columns(w, n, k, factors);
    for (size_t i = 0; i < n; i++)
        if (!relative_error_peak(w + i * k, k, peaks->peaks++))
            return failed(calibrated, linear, SMOOTHING_E_NOT_FINITE, err);
    return 0;
}

static int measure_op(void *arg, const ArchOp *op, float *x, size_t rows, size_t k, BackendLinear **linears,
                      ErrText *err) {
    SmoothedPeaks *peaks = arg;
    Calibrated *calibrated = peaks->calibrated;
    _cleanup_(freep) float *factors = malloc(k * sizeof(*factors));
    float *w[OP_WEIGHTS_MAX] = { 0 };
    int r = import_monitor_check(calibrated->model->monitor, err);

    if (!r && !factors)
        r = failed(calibrated, import_linear_of(peaks->layer, op->w[0]), -ENOMEM, err);
    if (!r)
        r = calibrated_read(calibrated, peaks->layer, op, w, err);
    if (!r)
        r = calibrated_smoothing(calibrated, peaks->layer, op, x, rows, k, w, false, factors, err);
    for (size_t i = 0; i < op->n && !r; i++)
        r = measure_linear(peaks, import_linear_of(peaks->layer, op->w[i]), w[i], factors, &linears[op->w[i]], err);
    for (size_t i = 0; i < op->n; i++)
        free(w[i]);
    return r;
}

/* Measures linears in the order of the operators that read them, which is the order of the file. */
static int measure_peaks(Calibrated *calibrated, ErrText *err) {
    const ImportModel *model = calibrated->model;
    uint32_t n_layers = model->hparams.n_layers;
    _cleanup_(freep) double *values = malloc(import_n_channels(model) * sizeof(*values));
    _cleanup_(layer_walk_freep) LayerWalk *walk = NULL;
    SmoothedPeaks peaks = { .calibrated = calibrated, .peaks = values };
    int r = 0;

    if (!values)
        return failed(calibrated, &model->layers[1].linears[0], -ENOMEM, err);
    r = calibrated_walk_new(calibrated, &walk, calibrated->n_windows, err);
    for (uint32_t i = 0; i < n_layers && !r; i++) {
        BackendLinear *linears[_ROLE_N] = { 0 };
        float *vectors[_ROLE_N] = { 0 };

        peaks.layer = &model->layers[1 + i];
        peaks.vectors = vectors;
        r = calibrated_vectors_read(calibrated, peaks.layer, vectors, err);
        if (!r)
            r = layer_walk_layer(walk, i, linears, vectors, measure_op, &peaks, err);
        calibrated_linears_free(calibrated, linears);
        calibrated_vectors_free(vectors);
        import_monitor_part(model->monitor, (double)(i + 1) / (double)n_layers);
    }
    if (!r)
        calibrated->peaks = steal(&values);
    return r;
}

/**
 * calibrated_allocate_smoothed() - run Algorithm 1 in every tensor, on its smoothed weights
 *
 * The widths come from alphas that are judged on the inputs of the model at 8 bits. The layers are later made with
 * alphas judged on the quantized model, without a change of the widths.
 */
int calibrated_allocate_smoothed(Calibrated *calibrated, ErrText *err) {
    const ImportModel *model = calibrated->model;
    const double *peaks;
    int r = calibrated->peaks ? 0 : measure_peaks(calibrated, err);

    peaks = calibrated->peaks;
    for (size_t i = 1; i <= model->hparams.n_layers && !r; i++)
        for (size_t j = 0; j < model->hparams.arch->n_ops; j++) {
            const ArchOp *op = &model->hparams.arch->ops[j];

            for (size_t o = 0; op->kind == OP_LINEAR && o < op->n && !r; o++) {
                const ImportLinear *linear = import_linear_of(&model->layers[i], op->w[o]);

                r = bit_allocation_tensor(peaks, linear->n, model->bits, linear->bits);
                if (r)
                    r = failed(calibrated, linear, r, err);
                peaks += linear->n;
            }
        }
    return r;
}
