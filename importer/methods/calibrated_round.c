// SPDX-License-Identifier: Apache-2.0
#include "importer/methods/calibrated_round.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "importer/import_rows.h"
#include "quant/format/recipe_spec.h"
#include "quant/rotate.h"
#include "quant/rounding/compensate.h"
#include "quant/rounding/descent.h"
#include "quant/rounding/gain.h"
#include "quant/rounding/round.h"
#include "quant/rounding/scale_search.h"

/* Share of the mean diagonal, as in OPTQ. */
#define DAMPING 0.01

/* Rows that are rotated at a time, a bound on the copy. The number is fixed because the last bits of the sums depend on
 * it. */
#define ROTATED_ROWS 2048

typedef struct RotateLoop {
    float *x;
    size_t k;
    uint32_t block;
} RotateLoop;

static void rotate_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const RotateLoop *loop = arg;

    for (size_t r = begin; r < end; r++)
        rotate_row(loop->x + r * loop->k, loop->k, loop->block);
}

typedef struct EnergyLoop {
    const float *x;
    size_t rows, k;
    float *energies;
} EnergyLoop;

static void add_energies(void *arg, size_t begin, size_t end, unsigned int worker) {
    const EnergyLoop *loop = arg;

    for (size_t r = 0; r < loop->rows; r++)
        for (size_t i = begin; i < end; i++)
            loop->energies[i] += loop->x[r * loop->k + i] * loop->x[r * loop->k + i];
}

/* How much the correlations of the inputs are shrunk (hessian_shrink()): the fewer rows there are an input, the more.
 * The form was fitted on rows of other texts, to the output error of products of 576 to 8960 inputs at 4 bits after
 * 4096 and 15360 calibration rows. The error is flat around it. */
static float shrinkage(size_t rows, size_t k) {
    return sqrtf((float)k / (float)(k + rows));
}

static void add_moments(float *h, const float *x, size_t rows, size_t k, uint32_t block, float *rotated,
                        WorkerPool *pool) {
    for (size_t first = 0; first < rows; first += ROTATED_ROWS) {
        size_t n = MIN(rows - first, ROTATED_ROWS);
        RotateLoop rotate = { rotated, k, block };

        memcpy(rotated, x + first * k, n * k * sizeof(*rotated));
        if (block)
            worker_pool_run(pool, rotate_rows, &rotate, n, 1);
        hessian_add(h, rotated, n, k, pool);
    }
}

static int moments_error(const ImportModel *model, size_t k, ErrText *err) {
    QuantRecipe other = *model->recipe;
    char spec[RECIPE_SPEC_MAX];

    other.compensate = other.descend = false;
    recipe_spec_format(spec, &other);
    return err_set(
        err, IMPORT_E_CORRUPT,
        "%s: the inputs of a product of width %zu are all zero or not finite: this model cannot be calibrated "
        "on this text (--recipe %s imports it without)",
        model->source_path, k, spec);
}

/**
 * calibrated_factor() - compute and factor the second moments of a product's inputs
 *
 * The inputs come from the layers before, which are quantized already: thus later layers make up for the errors of
 * earlier ones. Peak memory: two matrices f32[k][k], or one and ROTATED_ROWS rows.
 */
int calibrated_factor(Calibrated *calibrated, HessianFactor *factor, const float *x, size_t rows, size_t k,
                      uint32_t rotation_block, ErrText *err) {
    WorkerPool *pool = calibrated->model->pool;
    _cleanup_(freep) float *h = calloc(k * k, sizeof(*h));
    _cleanup_(freep) float *rotated = malloc(MIN(rows, ROTATED_ROWS) * k * sizeof(*rotated));
    _cleanup_(freep) float *energies = calloc(k, sizeof(*energies));
    EnergyLoop loop = { x, rows, k, energies };
    int r;

    if (!h || !rotated || !energies)
        return err_set(err, -ENOMEM, "%s: out of memory for the inputs of a product of width %zu",
                       calibrated->model->source_path, k);
    add_moments(h, x, rows, k, rotation_block, rotated, pool);
    free(steal(&rotated));
    worker_pool_run(pool, add_energies, &loop, k, 64);
    r = hessian_shrink(h, energies, k, rotation_block, shrinkage(rows, k), pool);
    if (!r)
        r = hessian_factor(factor, steal(&h), k, DAMPING, pool);
    if (r < 0)
        return err_set(err, r, "%s: out of memory for the factor of a product of width %zu",
                       calibrated->model->source_path, k);
    return r ? moments_error(calibrated->model, k, err) : 0;
}

typedef struct RoundLoop {
    const QuantRecipe *recipe;
    const CalibratedRounding *rounding;
    bool scales_only;
    _Atomic bool not_finite;
} RoundLoop;

static void round_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    RoundLoop *loop = arg;
    const CalibratedRounding *rounding = loop->rounding;
    size_t k = rounding->linear->k;

    for (size_t i = begin; i < end; i++) {
        const float *w = rounding->w + i * k;
        int bits = rounding->bits[i];
        bool ok;

        if (!loop->scales_only)
            ok = import_round_row(loop->recipe, w, k, bits, rounding->q + i * k, &rounding->scales[i]);
        else if (loop->recipe->search_scales && bits < GRID_BITS_MAX)
            ok = scale_search(w, k, loop->recipe->grid, bits, &rounding->scales[i]);
        else
            ok = scale_of_largest(w, k, loop->recipe->grid, bits, &rounding->scales[i]);
        if (!ok)
            atomic_store(&loop->not_finite, true);
    }
}

/* Fits the integers to the calibration rows, for less output error than rounding each weight to its nearest level. */
static int fit_to_rows(Calibrated *calibrated, const CalibratedRounding *rounding) {
    const QuantRecipe *recipe = calibrated->model->recipe;
    CompensateCall call = {
        .factor = rounding->factor,
        .n = rounding->linear->n,
        .w = rounding->w,
        .grid = recipe->grid,
        .bits = rounding->bits,
        .scales = rounding->scales,
        .q = rounding->q,
        .errors = rounding->errors,
    };
    int r = recipe->compensate ? compensate_round(&call, calibrated->model->pool) : 0;

    if (!r && recipe->descend)
        r = descent_refine(&call, DESCENT_PASSES, calibrated->model->pool);
    return r || !recipe->correct_gain ? r : gain_correct(&call, calibrated->model->pool);
}

/**
 * calibrated_round() - compute integers and scales of one linear
 *
 * With a factor, the weights are rounded with error compensation, coordinate descent or both, as the recipe says, on
 * the scales of plain rounding. Then the scales are corrected. All threads; bits do not depend on their number.
 */
int calibrated_round(Calibrated *calibrated, const CalibratedRounding *rounding, ErrText *err) {
    const ImportModel *model = calibrated->model;
    const ImportLinear *linear = rounding->linear;
    RoundLoop loop = { model->recipe, rounding, .scales_only = rounding->factor && model->recipe->compensate };
    int r;

    worker_pool_run(model->pool, round_rows, &loop, linear->n, 4);
    if (loop.not_finite)
        return err_set(err, IMPORT_E_CORRUPT,
                       "%s: tensor '%s': a value is not a finite number: the file is damaged, download it again",
                       model->source_path, linear->source->name);
    r = rounding->factor ? fit_to_rows(calibrated, rounding) : 0;
    return r ? err_set(err, r, "%s: out of memory for tensor '%s'", model->source_path, linear->source->name) : 0;
}
