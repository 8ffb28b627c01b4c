// SPDX-License-Identifier: Apache-2.0
#include "importer/sensitivity/sensitivity_allocate.h"

/* Turns the losses of all channels (sensitivity.c) into widths. The loss at another width than the measured one is
 * estimated by the error of a quantizer of that width. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/min_max.h"
#include "quant/format/grid.h"
#include "quant/bit_allocation.h"
#include "quant/format/pack.h"

/* Mean squared error of the best quantizer of a Gaussian, by width: with equally spaced levels (Max 1960, table II) and
 * with those of the normal grid. Rotated weights are nearly Gaussian. */
static const double quantizer_errors[_GRID_N][GRID_BITS_MAX] = {
    [GRID_UNIFORM] = { 0.3634, 0.1188, 0.03744, 0.01154, 0.003495, 0.001041, 0.0003035, 0.0000869 },
    [GRID_NORMAL] = { 0.3634, 0.1175, 0.03455, 0.009508, 0.002520, 0.0006568, 0.0001800, 0.0000869 },
};

/* Groups of channels of one linear that get one width: 16 channels of similar loss, as the packed layout stores
 * them. */
typedef struct Groups {
    const double *errors; /* errors of a quantizer, by width - 1 */
    BitGroup *groups;
    int8_t *bits;
    size_t n;
} Groups;

static void groups_deinit(Groups *groups) {
    free(groups->groups);
    free(groups->bits);
}

/* Share of a channel's loss that is replaced by the mean loss of its linear. A loss comes from a few hundred answers,
 * and the channels with the fewest bits would otherwise be those whose loss was measured too small. */
#define LOSS_OF_LINEAR 0.3

typedef struct ByLoss {
    double loss;
    size_t channel;
} ByLoss;

static int falling(const void *a, const void *b) {
    const ByLoss *x = a, *y = b;

    if (x->loss != y->loss)
        return x->loss > y->loss ? -1 : 1;
    return x->channel < y->channel ? -1 : x->channel > y->channel;
}

static size_t n_blocks(const ImportLinear *linear) {
    return (linear->n + PACK_BLOCK_CHANNELS - 1) / PACK_BLOCK_CHANNELS;
}

/* Sorts the channels of a linear by falling loss; the caller frees them. */
static ByLoss *channels_by_loss(const Sensitivity *sensitivity, const ImportLinear *linear) {
    const double *losses = sensitivity->losses[linear->layer][linear->role];
    ByLoss *channels = malloc(linear->n * sizeof(*channels));
    double mean = 0;

    for (size_t i = 0; i < linear->n; i++)
        mean += losses[i] / (double)linear->n;
    for (size_t i = 0; channels && i < linear->n; i++)
        channels[i] = (ByLoss){ (1 - LOSS_OF_LINEAR) * losses[i] + LOSS_OF_LINEAR * mean, i };
    if (channels)
        qsort(channels, linear->n, sizeof(*channels), falling);
    return channels;
}

typedef int LinearFn(Groups *groups, const ImportLinear *linear, const ByLoss *channels);

static int add_groups(Groups *groups, const ImportLinear *linear, const ByLoss *channels) {
    for (size_t first = 0; first < linear->n; first += PACK_BLOCK_CHANNELS) {
        size_t n = MIN(linear->n - first, PACK_BLOCK_CHANNELS);
        BitGroup *group = &groups->groups[groups->n++];
        double loss = 0;

        for (size_t i = first; i < first + n; i++)
            loss += channels[i].loss;
        group->n_weights = (uint64_t)n * linear->k;
        for (int bits = GRID_BITS_MIN; bits <= GRID_BITS_MAX; bits++)
            group->error[bits - 1] = loss * groups->errors[bits - 1] / groups->errors[SENSITIVITY_BITS - 1];
    }
    return 0;
}

static int take_bits(Groups *groups, const ImportLinear *linear, const ByLoss *channels) {
    for (size_t i = 0; i < linear->n; i++)
        linear->bits[channels[i].channel] = groups->bits[groups->n + i / PACK_BLOCK_CHANNELS];
    groups->n += n_blocks(linear);
    return 0;
}

static int each_linear(const Sensitivity *sensitivity, const ImportModel *model, Groups *groups, LinearFn *fn,
                       ErrText *err) {
    groups->n = 0;
    for (uint32_t i = 0; i < sensitivity->n_layers; i++)
        for (size_t j = 0; j < model->layers[1 + i].n_linears; j++) {
            const ImportLinear *linear = &model->layers[1 + i].linears[j];
            _cleanup_(freep) ByLoss *channels = channels_by_loss(sensitivity, linear);

            if (!channels)
                return err_set(err, -ENOMEM, "%s: out of memory for the widths of tensor '%s'", model->source_path,
                               linear->source->name);
            (void)fn(groups, linear, channels);
        }
    return 0;
}

/* Finds a linear with a loss that is not finite, or NULL. */
static const ImportLinear *find_unmeasured(const Sensitivity *sensitivity, const ImportModel *model) {
    for (uint32_t i = 0; i < sensitivity->n_layers; i++)
        for (size_t j = 0; j < model->layers[1 + i].n_linears; j++) {
            const ImportLinear *linear = &model->layers[1 + i].linears[j];

            for (size_t channel = 0; channel < linear->n; channel++)
                if (!isfinite(sensitivity->losses[i][linear->role][channel]))
                    return linear;
        }
    return NULL;
}

static int unmeasured_error(const ImportModel *model, const ImportLinear *linear, ErrText *err) {
    char spec[RECIPE_SPEC_MAX];

    sensitivity_spec_without(spec, model);
    return err_set(err, IMPORT_E_UNSUPPORTED,
                   "%s: tensor '%s': what fewer bits cost here cannot be measured, values on the calibration text are "
                   "too large: --recipe %s measures nothing",
                   model->source_path, linear->source->name, spec);
}

/**
 * sensitivity_allocate() - choose widths of all channels, for one budget over the whole model
 *
 * Return: 0, IMPORT_E_UNSUPPORTED for losses that are not finite, -EINVAL, -ENOMEM.
 */
int sensitivity_allocate(const Sensitivity *sensitivity, const Calibrated *calibrated, double average_bits,
                         ErrText *err) {
    const ImportModel *model = calibrated->model;
    const ImportLinear *unmeasured = find_unmeasured(sensitivity, model);
    _cleanup_(groups_deinit) Groups groups = { .errors = quantizer_errors[model->recipe->grid] };
    size_t n = 0;
    int r;

    if (unmeasured)
        return unmeasured_error(model, unmeasured, err);
    for (uint32_t i = 0; i < sensitivity->n_layers; i++)
        for (size_t j = 0; j < model->layers[1 + i].n_linears; j++)
            n += n_blocks(&model->layers[1 + i].linears[j]);
    groups.groups = calloc(n, sizeof(*groups.groups));
    groups.bits = malloc(n);
    if (!groups.groups || !groups.bits)
        return err_set(err, -ENOMEM, "%s: out of memory for the widths of %zu blocks", model->source_path, n);
    r = each_linear(sensitivity, model, &groups, add_groups, err);
    if (r)
        return r;
    /* More than a bit below the average a loss is no longer small, and its square no longer predicts the change of
     * answers. */
    r = bit_allocation_model(groups.groups, n, average_bits, MAX(GRID_BITS_MIN, (int)average_bits - 1), GRID_BITS_MAX,
                             groups.bits);
    if (r)
        return err_set(err, r, "%s: the measured losses allow no allocation of %.3g bits", model->source_path,
                       average_bits);
    return each_linear(sensitivity, model, &groups, take_bits, err);
}
