/* How many bits each part of a model deserves, measured on the model itself.
 *
 * Every linear is rounded to PROBE_BITS, with error compensation when the recipe has it, and the change that this alone
 * makes to the output of its layer is kept. That change, made larger, is then sent through the rest of the model, and the
 * Kullback-Leibler divergence of its answers from the unchanged ones is the linear's loss. Within a linear the loss is
 * shared out by the errors of the channels under the calibration Hessian; to other widths it is carried by the error of
 * a uniform quantizer. The model of the measurement has 8 bits everywhere: beside its answers, which int8 activations
 * make jump by a little whatever is changed (the noise below), float would cost several times as much. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "importer/calibrated.h"
#include "quant/bit_allocation.h"
#include "quant/pack.h"

enum {
    PROBE_BITS = 4,
    PROBE_WINDOWS = 1,
    PROBE_FIRST_ROW = 64, /* answers without context say little of how the model is used */
    PROBE_ROW_STEP = 4,
};

/* The change is sent on this many times as large, and its divergence divided by the square: so it stands above the noise
 * of int8 activations (about 0.003 nats, as much as a tensor of 4 bits makes). */
#define PROBE_GAIN 4.0

/* No linear's loss counts for less than this part of what the average linear loses for each of its weights: the small ones
 * are measured within the noise, and a linear that nothing shows is not free. */
#define LOSS_LEAST 0.25

/* Mean squared error of the best uniform quantizer of a Gaussian by width (Max 1960, table II): rotated weights are
 * nearly Gaussian. */
static const double uniform_error[GRID_BITS_MAX] = { 0.3634, 0.1188, 0.03744, 0.01154, 0.003495, 0.001041, 0.0003035,
                                                     0.0000869 };

typedef struct LinearLoss {
    double loss;    /* nats, at PROBE_BITS */
    double *errors; /* f64[n]: of the channels, in any unit */
} LinearLoss;

struct Sensitivity {
    uint32_t n_layers;
    LinearLoss (*linears)[_ROLE_N]; /* [n_layers] */
};

Sensitivity *sensitivity_free(Sensitivity *sensitivity) {
    if (!sensitivity)
        return NULL;
    for (uint32_t i = 0; sensitivity->linears && i < sensitivity->n_layers; i++)
        for (size_t role = 0; role < _ROLE_N; role++)
            free(sensitivity->linears[i][role].errors);
    free(sensitivity->linears);
    free(sensitivity);
    return NULL;
}

/* --- measuring ---------------------------------------------------------------------------------------------------- */

typedef struct MeasuredLayer {
    BackendLinear *linears[_ROLE_N]; /* 8 bits */
    float *vectors[_ROLE_N];
    float *out;               /* the probe's stream behind the layer, f32[rows][n_embd] */
    float *changes[_ROLE_N];  /* what the linear at PROBE_BITS adds to it, likewise */
} MeasuredLayer;

typedef struct Measuring {
    Calibrated *calibrated;
    Sensitivity *sensitivity;
    LayerWalk *walk;       /* all rows: the factors come from here */
    LayerWalk *probe;      /* PROBE_WINDOWS of them */
    size_t n_values;       /* of the probe's stream */
    MeasuredLayer *layers; /* [n_layers] */
    MeasuredLayer *layer;  /* at work */
    const ImportLayer *source;
    BackendLinear *probes[_ROLE_N]; /* of the layer at work */
    size_t n_answers;               /* rows whose answers are compared */
    size_t *rows;                   /* [n_answers] */
    double *divergences;            /* likewise */
    float *answers;                 /* f32[n_answers][n_vocab]: log-probabilities of the unchanged model */
    float *logits;                  /* likewise, of the changed one */
    double noise;                   /* nats: what int8 activations make of a change that is nothing */
} Measuring;

static void measuring_deinit(Measuring *measuring) {
    Calibrated *calibrated = measuring->calibrated;

    layer_walk_free(measuring->walk);
    layer_walk_free(measuring->probe);
    calibrated_linears_free(calibrated, measuring->probes);
    for (uint32_t i = 0; measuring->layers && i < calibrated->model->hparams.n_layers; i++) {
        calibrated_linears_free(calibrated, measuring->layers[i].linears);
        calibrated_vectors_free(measuring->layers[i].vectors);
        calibrated_vectors_free(measuring->layers[i].changes);
        free(measuring->layers[i].out);
    }
    free(measuring->layers);
    free(measuring->rows);
    free(measuring->divergences);
    free(measuring->answers);
    free(measuring->logits);
    sensitivity_free(measuring->sensitivity);
}

static int out_of_memory(const Measuring *measuring, ErrText *err) {
    return err_set(err, -ENOMEM, "%s: out of memory for measuring where the bits go (--allocation=uniform needs less)",
                   measuring->calibrated->model->source_path);
}

/* One linear at 8 bits and at PROBE_BITS. */
static int probe_linear(Measuring *measuring, const ImportLinear *linear, const HessianFactor *factor, ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    size_t n = linear->n, k = linear->k;
    _cleanup_(freep) float *w = malloc(n * k * sizeof(*w));
    _cleanup_(freep) float *scales = malloc(n * sizeof(*scales));
    _cleanup_(freep) int8_t *q = malloc(n * k);
    _cleanup_(freep) int8_t *bits = malloc(n);
    double *errors = calloc(n, sizeof(*errors));
    CalibratedRounding rounding = { linear, NULL, w, bits, q, scales, NULL };
    MeasuredLayer *layer = measuring->layer;
    int r;

    measuring->sensitivity->linears[linear->layer][linear->role].errors = errors;
    if (!w || !scales || !q || !bits || !errors)
        return out_of_memory(measuring, err);
    r = import_read_linear(calibrated->model, linear, w, err);
    if (r)
        return r;
    memset(bits, GRID_BITS_MAX, n);
    r = calibrated_round(calibrated, &rounding, err);
    if (!r)
        r = calibrated_linear_new(calibrated, &layer->linears[linear->role], linear, q, scales, layer->vectors, err);
    if (r)
        return r;
    memset(bits, PROBE_BITS, n);
    rounding.factor = factor;
    rounding.errors = errors;
    r = calibrated_round(calibrated, &rounding, err);
    return r ? r
             : calibrated_linear_new(calibrated, &measuring->probes[linear->role], linear, q, scales, layer->vectors,
                                     err);
}

static int probe_op(void *arg, const ArchOp *op, float *x, size_t rows, size_t k, BackendLinear **linears,
                    ErrText *err) {
    Measuring *measuring = arg;
    Calibrated *calibrated = measuring->calibrated;
    _cleanup_(hessian_factor_deinit) HessianFactor factor = { 0 };
    /* The rows that the losses are measured on: rounding must not have been fitted to them. */
    size_t held_back = calibrated->n_windows > PROBE_WINDOWS ? PROBE_WINDOWS * CALIBRATION_WINDOW_TOKENS : 0;
    int r;

    if (import_is_cancelled(calibrated->model))
        return calibrated_cancelled(calibrated, err);
    r = calibrated_factor(calibrated, &factor, x + held_back * k, rows - held_back, k,
                          calibrated_linear_of(measuring->source, op->w[0])->rotation_block, err);
    for (size_t i = 0; i < op->n && !r; i++)
        r = probe_linear(measuring, calibrated_linear_of(measuring->source, op->w[i]), &factor, err);
    return r;
}

/* The changes that the probes make to the layer's output, one linear at a time. */
static int measure_changes(Measuring *measuring, uint32_t index, ErrText *err) {
    size_t len_bytes = measuring->n_values * sizeof(float);
    _cleanup_(freep) float *in = malloc(len_bytes);
    float *stream = layer_walk_stream(measuring->probe);
    MeasuredLayer *layer = measuring->layer;
    int r;

    layer->out = malloc(len_bytes);
    if (!in || !layer->out)
        return out_of_memory(measuring, err);
    memcpy(in, stream, len_bytes);
    r = layer_walk_layer(measuring->probe, index, layer->linears, layer->vectors, NULL, NULL, err);
    if (r)
        return r;
    memcpy(layer->out, stream, len_bytes);
    for (size_t role = 0; role < _ROLE_N; role++) {
        BackendLinear *linear = layer->linears[role];
        float *change;

        if (!linear)
            continue;
        change = layer->changes[role] = malloc(len_bytes);
        if (!change)
            return out_of_memory(measuring, err);
        layer->linears[role] = measuring->probes[role];
        memcpy(stream, in, len_bytes);
        r = layer_walk_layer(measuring->probe, index, layer->linears, layer->vectors, NULL, NULL, err);
        layer->linears[role] = linear;
        if (r)
            return r;
        for (size_t i = 0; i < measuring->n_values; i++)
            change[i] = stream[i] - layer->out[i];
    }
    memcpy(stream, layer->out, len_bytes);
    return 0;
}

static int measure_layer(Measuring *measuring, uint32_t index, ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    int r;

    measuring->layer = &measuring->layers[index];
    measuring->source = &calibrated->model->layers[1 + index];
    r = calibrated_vectors_read(calibrated, measuring->source, measuring->layer->vectors, err);
    if (!r)
        r = layer_walk_layer(measuring->walk, index, measuring->layer->linears, measuring->layer->vectors, probe_op,
                             measuring, err);
    if (!r)
        r = measure_changes(measuring, index, err);
    calibrated_linears_free(calibrated, measuring->probes);
    return r;
}

/* Logits of an answer become log-probabilities. */
static void log_softmax(float *logits, size_t n) {
    double sum = 0;
    float largest = logits[0];

    for (size_t i = 1; i < n; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)(logits[i] - largest));
    for (size_t i = 0; i < n; i++)
        logits[i] -= largest + (float)log(sum);
}

/* Log-probabilities of the probe's answers into f32[n_answers][n_vocab]; those of the unchanged model stay as they are. */
typedef struct AnswerLoop {
    float *answers;
    const float *expected; /* NULL: nothing to compare with */
    size_t n_vocab;
    double *divergences; /* [n_answers] */
} AnswerLoop;

static void compare_answers(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AnswerLoop *loop = arg;

    for (size_t i = begin; i < end; i++) {
        float *answer = loop->answers + i * loop->n_vocab;
        double sum = 0;

        log_softmax(answer, loop->n_vocab);
        if (!loop->expected)
            continue;
        for (size_t v = 0; v < loop->n_vocab; v++) {
            float expected = loop->expected[i * loop->n_vocab + v];

            sum += exp((double)expected) * (double)(expected - answer[v]);
        }
        loop->divergences[i] = sum;
    }
}

/* The answers of the probe, whose stream stands behind layer `index` and is carried through the others. *meanp: their
 * mean divergence from `expected`, 0 when that is NULL. */
static int answer(Measuring *measuring, uint32_t index, float *answers, const float *expected, double *meanp,
                  ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    const Hparams *hparams = &calibrated->model->hparams;
    AnswerLoop loop = { answers, expected, hparams->n_vocab, measuring->divergences };
    double sum = 0;
    int r = 0;

    for (uint32_t i = index + 1; i < hparams->n_layers && !r; i++)
        r = layer_walk_layer(measuring->probe, i, measuring->layers[i].linears, measuring->layers[i].vectors, NULL,
                             NULL, err);
    if (!r)
        r = layer_walk_logits(measuring->probe, calibrated->outside[ROLE_OUTPUT_NORM], calibrated->head,
                              measuring->rows, measuring->n_answers, answers, err);
    if (r)
        return r;
    worker_pool_run(calibrated->model->pool, compare_answers, &loop, measuring->n_answers, 1);
    for (size_t i = 0; expected && i < measuring->n_answers; i++)
        sum += loop.divergences[i];
    *meanp = sum / (double)measuring->n_answers;
    return 0;
}

static int divergence_of_change(Measuring *measuring, uint32_t index, const float *change, double gain,
                                double *divergencep, ErrText *err) {
    const float *out = measuring->layers[index].out;
    float *stream = layer_walk_stream(measuring->probe);

    for (size_t i = 0; i < measuring->n_values; i++)
        stream[i] = out[i] + (float)gain * change[i];
    return answer(measuring, index, measuring->logits, measuring->answers, divergencep, err);
}

static int measure_losses(Measuring *measuring, ErrText *err) {
    const ImportModel *model = measuring->calibrated->model;
    const MeasuredLayer *layers = measuring->layers;
    size_t n_done = 0;
    double mean;
    int r;

    r = answer(measuring, model->hparams.n_layers - 1, measuring->answers, NULL, &mean, err);
    for (size_t role = 0; role < _ROLE_N && measuring->noise <= 0 && !r; role++)
        if (layers[0].changes[role])
            r = divergence_of_change(measuring, 0, layers[0].changes[role], 1e-3, &measuring->noise, err);
    if (r)
        return r;
    for (uint32_t i = 0; i < model->hparams.n_layers; i++) {
        for (size_t role = 0; role < _ROLE_N; role++) {
            double loss;

            if (!layers[i].changes[role])
                continue;
            if (import_is_cancelled(model))
                return calibrated_cancelled(measuring->calibrated, err);
            r = divergence_of_change(measuring, i, layers[i].changes[role], PROBE_GAIN, &loss, err);
            if (r)
                return r;
            loss = fmax(loss - measuring->noise, 0);
            measuring->sensitivity->linears[i][role].loss = loss / (PROBE_GAIN * PROBE_GAIN);
        }
        import_report_part(model, 0.6 + 0.4 * (double)++n_done / (double)model->hparams.n_layers);
    }
    return 0;
}

static int measuring_init(Measuring *measuring, ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    const Hparams *hparams = &calibrated->model->hparams;
    size_t most = (size_t)PROBE_WINDOWS * CALIBRATION_WINDOW_TOKENS;
    int r;

    measuring->n_values = (size_t)PROBE_WINDOWS * CALIBRATION_WINDOW_TOKENS * hparams->n_embd;
    measuring->rows = calloc(most, sizeof(*measuring->rows));
    measuring->divergences = calloc(most, sizeof(*measuring->divergences));
    for (size_t row = 0; measuring->rows && row < most; row++)
        if (row % CALIBRATION_WINDOW_TOKENS >= PROBE_FIRST_ROW && row % PROBE_ROW_STEP == 0)
            measuring->rows[measuring->n_answers++] = row;
    measuring->answers = malloc(measuring->n_answers * hparams->n_vocab * sizeof(float));
    measuring->logits = malloc(measuring->n_answers * hparams->n_vocab * sizeof(float));
    measuring->layers = calloc(hparams->n_layers, sizeof(*measuring->layers));
    measuring->sensitivity = calloc(1, sizeof(*measuring->sensitivity));
    if (!measuring->rows || !measuring->divergences || !measuring->answers || !measuring->logits || !measuring->layers || !measuring->sensitivity)
        return out_of_memory(measuring, err);
    measuring->sensitivity->n_layers = hparams->n_layers;
    measuring->sensitivity->linears = calloc(hparams->n_layers, sizeof(*measuring->sensitivity->linears));
    if (!measuring->sensitivity->linears)
        return out_of_memory(measuring, err);
    /* The device keeps room for the walk that was made last: that is the larger one. */
    r = calibrated_walk_new(calibrated, &measuring->probe, PROBE_WINDOWS, err);
    return r ? r : calibrated_walk_new(calibrated, &measuring->walk, calibrated->n_windows, err);
}

/**
 * sensitivity_measure() - the loss of every linear of the layers
 *
 * Time: one pass of compensated rounding and, for every linear, half a forward pass of PROBE_WINDOWS. Memory: the model at
 * 8 bits, the rows of the calibration, and a change for every linear, f32[512][n_embd].
 * Return: 0, IMPORT_E_CORRUPT, IMPORT_E_CANCELLED, IMPORT_E_CHANGED, -errno.
 */
int sensitivity_measure(Sensitivity **sensitivityp, Calibrated *calibrated, ErrText *err) {
    _cleanup_(measuring_deinit) Measuring measuring = { .calibrated = calibrated };
    uint32_t n_layers = calibrated->model->hparams.n_layers;
    int r;

    r = measuring_init(&measuring, err);
    for (uint32_t i = 0; i < n_layers && !r; i++) {
        r = measure_layer(&measuring, i, err);
        import_report_part(calibrated->model, 0.6 * (double)(i + 1) / (double)n_layers);
    }
    if (!r)
        r = measure_losses(&measuring, err);
    if (r)
        return r;
    *sensitivityp = steal(&measuring.sensitivity);
    return 0;
}

/* --- allocating --------------------------------------------------------------------------------------------------- */

typedef struct Groups {
    BitGroup *groups;
    int8_t *bits;
    size_t n;
} Groups;

static void groups_deinit(Groups *groups) {
    free(groups->groups);
    free(groups->bits);
}

static double mean_loss(const Sensitivity *sensitivity, const ImportModel *model) {
    double loss = 0, weights = 0;

    for (uint32_t i = 0; i < sensitivity->n_layers; i++)
        for (size_t j = 0; j < model->layers[1 + i].n_linears; j++) {
            const ImportLinear *linear = &model->layers[1 + i].linears[j];

            loss += sensitivity->linears[i][linear->role].loss;
            weights += (double)linear->n * (double)linear->k;
        }
    return fmax(loss, 1e-9) / weights;
}

static double sum_of(const double *values, size_t n) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

static size_t n_blocks(const ImportLinear *linear) {
    return (linear->n + PACK_BLOCK_CHANNELS - 1) / PACK_BLOCK_CHANNELS;
}

/* One group for each block of 16 channels, as the packed layout stores them with one width. */
static void add_groups(Groups *groups, const ImportLinear *linear, const LinearLoss *linear_loss, double least) {
    double total = sum_of(linear_loss->errors, linear->n);
    double loss = fmax(linear_loss->loss, least * (double)linear->n * (double)linear->k);

    for (size_t first = 0; first < linear->n; first += PACK_BLOCK_CHANNELS) {
        size_t n = linear->n - first < PACK_BLOCK_CHANNELS ? linear->n - first : PACK_BLOCK_CHANNELS;
        double part = total > 0 ? sum_of(linear_loss->errors + first, n) / total : (double)n / (double)linear->n;
        BitGroup *group = &groups->groups[groups->n++];

        group->n_weights = (uint64_t)n * linear->k;
        for (int bits = GRID_BITS_MIN; bits <= GRID_BITS_MAX; bits++)
            group->error[bits - 1] = loss * part * uniform_error[bits - 1] / uniform_error[PROBE_BITS - 1];
    }
}

static int max_int(int a, int b) {
    return a > b ? a : b;
}

/**
 * sensitivity_allocate() - widths of all blocks of 16 channels, for one budget over the whole model
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int sensitivity_allocate(const Sensitivity *sensitivity, const Calibrated *calibrated, double average_bits,
                         ErrText *err) {
    const ImportModel *model = calibrated->model;
    double least = LOSS_LEAST * mean_loss(sensitivity, model);
    _cleanup_(groups_deinit) Groups groups = { 0 };
    size_t n = 0;
    int r;

    for (uint32_t i = 0; i < sensitivity->n_layers; i++)
        for (size_t j = 0; j < model->layers[1 + i].n_linears; j++)
            n += n_blocks(&model->layers[1 + i].linears[j]);
    groups.groups = calloc(n, sizeof(*groups.groups));
    groups.bits = malloc(n);
    if (!groups.groups || !groups.bits)
        return err_set(err, -ENOMEM, "%s: out of memory for the widths of %zu blocks", model->source_path, n);
    for (uint32_t i = 0; i < sensitivity->n_layers; i++)
        for (size_t j = 0; j < model->layers[1 + i].n_linears; j++) {
            const ImportLinear *linear = &model->layers[1 + i].linears[j];

            add_groups(&groups, linear, &sensitivity->linears[i][linear->role], least);
        }
    /* More than a bit below the average a loss is no longer small, and squares no longer say what happens. */
    r = bit_allocation_model(groups.groups, n, average_bits, max_int(GRID_BITS_MIN, (int)average_bits - 1),
                             GRID_BITS_MAX, groups.bits);
    if (r)
        return err_set(err, r, "%s: the measured losses allow no allocation of %.3g bits", model->source_path,
                       average_bits);
    n = 0;
    for (uint32_t i = 0; i < sensitivity->n_layers; i++)
        for (size_t j = 0; j < model->layers[1 + i].n_linears; j++) {
            const ImportLinear *linear = &model->layers[1 + i].linears[j];

            for (size_t c = 0; c < linear->n; c++)
                linear->bits[c] = groups.bits[n + c / PACK_BLOCK_CHANNELS];
            n += n_blocks(linear);
        }
    return 0;
}
