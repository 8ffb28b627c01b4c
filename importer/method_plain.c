/* Rounding without calibration: rows are read, rotated and rounded one by one, on all threads. */
#include <stdlib.h>
#include <string.h>

#include "importer/import_private.h"
#include "quant/grid.h"
#include "quant/round.h"
#include "quant/scale_search.h"

bool import_round_row(const QuantRecipe *recipe, const float *w, size_t k, int bits, int8_t *q, float *scalep) {
    if (bits == GRID_BITS_MAX) /* there the largest weight's scale is as good as a searched one */
        return round_channel_int8(w, k, q, scalep);
    if (!(recipe->search_scales ? scale_search(w, k, bits, scalep) : scale_of_largest(w, k, bits, scalep)))
        return false;
    round_channel(w, k, bits, *scalep, q);
    return true;
}

static int plain_begin(void **statep, const ImportModel *model, ErrText *err) {
    *statep = NULL;
    return 0;
}

static void plain_end(void *state) {
}

static int plain_allocate(void *state, const ImportModel *model, ErrText *err) {
    for (size_t i = 0; i <= model->hparams.n_layers; i++)
        for (size_t j = 0; i && j < model->layers[i].n_linears; j++) {
            const ImportLinear *linear = &model->layers[i].linears[j];

            memset(linear->bits, (int)model->bits, linear->n);
        }
    return 0;
}

typedef struct RoundLinear {
    const QuantRecipe *recipe;
    const ImportLinear *linear;
} RoundLinear;

static bool round_row(void *arg, size_t row, float *w, unsigned int worker) {
    const RoundLinear *round = arg;
    const ImportLinear *linear = round->linear;

    return import_round_row(round->recipe, w, linear->k, linear->bits[row], linear->q + row * linear->k,
                            &linear->scales[row]);
}

static int plain_quantize(void *state, const ImportModel *model, const ImportLayer *layer, ErrText *err) {
    for (size_t i = 0; layer->layer >= 0 && i < layer->n_linears; i++) {
        RoundLinear round = { &model->options->recipe, &layer->linears[i] };
        int r = import_each_row(model, round.linear, 0, round.linear->n, round_row, &round, err);

        if (r)
            return r;
        import_report_part(model, (double)(i + 1) / (double)layer->n_linears);
    }
    return 0;
}

const ImportMethod import_method_plain = {
    .begin = plain_begin,
    .end = plain_end,
    .allocate = plain_allocate,
    .quantize = plain_quantize,
};
