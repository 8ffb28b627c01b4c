// SPDX-License-Identifier: Apache-2.0
/* Rounding without calibration: rows are read, rotated and rounded one by one, on all threads. All widths are equal, or
 * EdgeFlow's Algorithm 1 chooses them in every tensor by statistics of its channels. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "importer/import_rows.h"
#include "importer/methods/import_method.h"
#include "quant/bit_allocation.h"
#include "quant/relative_error.h"

typedef struct PlainState {
    double *peaks; /* peaks of all channels of the layers, in order; NULL until they are measured */
} PlainState;

static int plain_begin(void **statep, const ImportModel *model, ErrText *err) {
    PlainState *state = calloc(1, sizeof(*state));

    if (!state)
        return err_set(err, -ENOMEM, "%s: out of memory", model->source_path);
    *statep = state;
    return 0;
}

static void plain_end(void *arg) {
    PlainState *state = arg;

    if (state)
        free(state->peaks);
    free(state);
}

/* --- widths ------------------------------------------------------------------------------------------------------- */

typedef struct MeasureLinear {
    double *peaks; /* [n] */
    size_t k;
} MeasureLinear;

static bool measure_row(void *arg, size_t row, float *w, unsigned int worker) {
    const MeasureLinear *measure = arg;

    return relative_error_peak(w, measure->k, &measure->peaks[row]);
}

/* Measures all channels in one reading of the source: Algorithm 1's statistics do not depend on the average width. */
static int plain_measure(PlainState *state, const ImportModel *model, ErrText *err) {
    size_t n_linears = 0, n_measured = 0, n = import_n_channels(model);
    _cleanup_(freep) double *peaks = malloc(n * sizeof(*peaks));
    double *at = peaks;

    if (!peaks)
        return err_set(err, -ENOMEM, "%s: out of memory for %zu channels", model->source_path, n);
    for (size_t i = 1; i <= model->hparams.n_layers; i++)
        n_linears += model->layers[i].n_linears;
    for (size_t i = 1; i <= model->hparams.n_layers; i++)
        for (size_t j = 0; j < model->layers[i].n_linears; j++) {
            const ImportLinear *linear = &model->layers[i].linears[j];
            int r = import_each_row(model, linear, 0, linear->n, measure_row, &(MeasureLinear){ at, linear->k }, err);

            if (r)
                return r;
            at += linear->n;
            import_monitor_part(model->monitor, (double)++n_measured / (double)n_linears);
        }
    state->peaks = steal(&peaks);
    return 0;
}

static int plain_allocate(void *arg, const ImportModel *model, ErrText *err) {
    bool by_tensor = model->recipe->allocation == QUANT_ALLOCATION_TENSOR;
    PlainState *state = arg;
    const double *peaks;
    int r = 0;

    assert(model->recipe->allocation != QUANT_ALLOCATION_MODEL); /* this allocation needs calibration */
    if (by_tensor && !state->peaks)
        r = plain_measure(state, model, err);
    peaks = state->peaks;
    for (size_t i = 1; !r && i <= model->hparams.n_layers; i++)
        for (size_t j = 0; !r && j < model->layers[i].n_linears; j++) {
            const ImportLinear *linear = &model->layers[i].linears[j];

            if (!by_tensor) {
                memset(linear->bits, (int)model->bits, linear->n);
                continue;
            }
            r = bit_allocation_tensor(peaks, linear->n, model->bits, linear->bits);
            if (r)
                err_set(err, r, "%s: tensor '%s': widths of %g bits on average: %s", model->source_path,
                        linear->source->name, model->bits, strerror(-r));
            peaks += linear->n;
        }
    return r;
}

/* --- integers ----------------------------------------------------------------------------------------------------- */

static int plain_quantize(void *state, const ImportModel *model, const ImportLayer *layer, ErrText *err) {
    for (size_t i = 0; layer->layer >= 0 && i < layer->n_linears; i++) {
        const ImportLinear *linear = &layer->linears[i];
        int r = import_round_rows(model, linear, 0, linear->n, linear->q, linear->scales, err);

        if (r)
            return r;
        import_monitor_part(model->monitor, (double)(i + 1) / (double)layer->n_linears);
    }
    return 0;
}

const ImportMethod import_method_plain = {
    .begin = plain_begin,
    .end = plain_end,
    .allocate = plain_allocate,
    .quantize = plain_quantize,
};
