// SPDX-License-Identifier: Apache-2.0
#include "importer/sensitivity/sensitivity.h"

/* Measures how many bits each part of a model deserves, on the model itself.
 *
 * An error in a product's output changes the model's answers. The change in nats of Kullback-Leibler divergence is, to
 * the second order, half a square with the Fisher matrix of the answers. One backward pass computes it for every
 * channel of every product, from the gradient of a random direction of that matrix (answer_gradient.h). The errors are
 * those of rounding to SENSITIVITY_BITS, after error compensation that was fitted to other rows than it is judged on.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "importer/import_rows.h"
#include "importer/methods/calibrated_round.h"
#include "importer/sensitivity/answer_gradient.h"
#include "importer/sensitivity/backward.h"
#include "quant/format/grid.h"
#include "quant/rotate.h"
#include "quant/rounding/blas.h"

enum {
    WINDOWS =
        10, /* windows of the calibration text; their number sets the peak memory of an import, and much of its time */
    PROBE_WINDOWS = 2,    /* windows that the losses are measured on; the rounding is fitted to the other ones */
    PROBE_FIRST_ROW = 64, /* answers without context tell little about the use of the model */
    PROBE_ROW_STEP = 2,
    CHANNELS_AT_ONCE = 64, /* pieces of work: fixed, so that threads change no bit */
    PROBE_PIECE = 64,      /* rows, likewise */
};

Sensitivity *sensitivity_free(Sensitivity *sensitivity) {
    if (!sensitivity)
        return NULL;
    for (uint32_t i = 0; sensitivity->losses && i < sensitivity->n_layers; i++)
        for (size_t role = 0; role < _ROLE_N; role++)
            free(sensitivity->losses[i][role]);
    free(sensitivity->losses);
    free(sensitivity);
    return NULL;
}

typedef struct MeasuredLayer {
    BackendLinear *linears[_ROLE_N]; /* 8 bits */
    float *vectors[_ROLE_N];
    float *stream;          /* input of the layer: f32[n_rows][n_embd] of the probe */
    float *inputs[_ROLE_N]; /* by an operator's first linear: f32[n_rows][k], as rounding errors meet them */
} MeasuredLayer;

typedef struct Measuring {
    Calibrated *calibrated;
    Sensitivity *sensitivity;
    size_t n_rows;         /* rows of the probe, the first ones of the walk over all rows */
    LayerWalk *walk;       /* first over all rows, then over the probe's rows */
    MeasuredLayer *layers; /* [n_layers] */
    float *last;           /* the probe's stream behind the last layer */
    size_t *answers;       /* rows of the probe whose answers count */
    size_t n_answers;
    float *gradients[_SLOT_N]; /* f32[n_rows][width of the slot] */
    uint32_t index;            /* layer at work */
} Measuring;

static void measuring_deinit(Measuring *measuring) {
    for (uint32_t i = 0; measuring->layers && i < measuring->calibrated->model->hparams.n_layers; i++) {
        calibrated_linears_free(measuring->calibrated, measuring->layers[i].linears);
        calibrated_vectors_free(measuring->layers[i].vectors);
        calibrated_vectors_free(measuring->layers[i].inputs);
        free(measuring->layers[i].stream);
    }
    for (size_t slot = 0; slot < _SLOT_N; slot++)
        free(measuring->gradients[slot]);
    free(measuring->layers);
    free(measuring->last);
    free(measuring->answers);
    layer_walk_free(measuring->walk);
    sensitivity_free(measuring->sensitivity);
}

/**
 * sensitivity_spec_without() - name the recipe of this import with an allocation that measures nothing
 *
 * The text has the form that `coordgenctl model import --recipe` takes: errors give it as the remedy.
 */
void sensitivity_spec_without(char spec[RECIPE_SPEC_MAX], const ImportModel *model) {
    QuantRecipe other = *model->recipe;

    other.allocation = other.bits == floor(other.bits) ? QUANT_ALLOCATION_UNIFORM : QUANT_ALLOCATION_TENSOR;
    recipe_spec_format(spec, &other);
}

static int out_of_memory(const Measuring *measuring, ErrText *err) {
    char spec[RECIPE_SPEC_MAX];

    sensitivity_spec_without(spec, measuring->calibrated->model);
    return err_set(err, -ENOMEM, "%s: out of memory for measuring where the bits go (--recipe %s needs less)",
                   measuring->calibrated->model->source_path, spec);
}

static float *copy_of(const float *values, size_t n) {
    float *copy = malloc(n * sizeof(*copy));

    if (copy)
        memcpy(copy, values, n * sizeof(*copy));
    return copy;
}

/* --- forward: what errors of rounding there are ------------------------------------------------------------------- */

typedef struct InputLoop {
    const HessianFactor *factor; /* NULL: errors are not compensated */
    float *x, *permuted;         /* f32[rows][k] */
    size_t rows, k;
    uint32_t rotation_block;
} InputLoop;

static void turn_inputs(void *arg, size_t begin, size_t end, unsigned int worker) {
    const InputLoop *loop = arg;
    const HessianFactor *factor = loop->factor;

    for (size_t first = begin * PROBE_PIECE; first < end * PROBE_PIECE && first < loop->rows; first += PROBE_PIECE) {
        size_t n = MIN(loop->rows - first, PROBE_PIECE);

        for (size_t row = first; row < first + n; row++) {
            float *x = loop->x + row * loop->k;

            rotate_row(x, loop->k, loop->rotation_block);
            for (size_t i = 0; factor && i < loop->k; i++)
                loop->permuted[row * loop->k + i] = x[factor->order[i]];
        }
        if (factor)
            blas_solve_lower(factor->m, loop->k, loop->permuted + first * loop->k, n, loop->k, loop->k);
    }
}

/* Keeps the probe's inputs of a product as its rounding errors meet them. Plain rounding: the rotated inputs x.
 * Compensated rounding: the error of a channel e = w - q is M^-T times the errors of the single roundings
 * (hessian_factor()). Those errors are independent of each other, and meet M^-1 x. */
static int keep_inputs(Measuring *measuring, const float *x, size_t rows, size_t k, uint32_t rotation_block,
                       float **inputsp, ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    /* The rounding must not be fitted to the rows that it is judged on, if there are others. */
    size_t held_back = measuring->n_rows < rows ? measuring->n_rows : 0;
    _cleanup_(hessian_factor_deinit) HessianFactor factor = { 0 };
    _cleanup_(freep) float *probe = copy_of(x, measuring->n_rows * k);
    InputLoop loop = { .x = probe, .rows = measuring->n_rows, .k = k, .rotation_block = rotation_block };
    int r;

    if (!probe)
        return out_of_memory(measuring, err);
    if (calibrated->model->recipe->compensate) {
        r = calibrated_factor(calibrated, &factor, x + held_back * k, rows - held_back, k, rotation_block, err);
        if (r)
            return r;
        loop.factor = &factor;
        loop.permuted = *inputsp = malloc(measuring->n_rows * k * sizeof(**inputsp));
        if (!*inputsp)
            return out_of_memory(measuring, err);
    }
    worker_pool_run(calibrated->model->pool, turn_inputs, &loop, (loop.rows + PROBE_PIECE - 1) / PROBE_PIECE, 1);
    if (!loop.factor)
        *inputsp = steal(&probe);
    return 0;
}

typedef struct ProbeRows {
    const QuantRecipe *recipe;
    size_t k;
    int8_t *q;      /* [n][k] at 8 bits */
    float *scales;  /* [n] */
    int8_t *probed; /* [n_threads][k] at SENSITIVITY_BITS */
    double *errors; /* [n]: mean square of a weight's error at SENSITIVITY_BITS */
} ProbeRows;

static bool probe_row(void *arg, size_t row, float *w, unsigned int worker) {
    const ProbeRows *rows = arg;
    int8_t *q = rows->probed + worker * rows->k;
    double sum = 0;
    float scale;

    if (!import_round_row(rows->recipe, w, rows->k, SENSITIVITY_BITS, q, &scale))
        return false;
    for (size_t i = 0; i < rows->k; i++) {
        double error = (double)w[i] - (double)q[i] * (double)scale;

        sum += error * error;
    }
    rows->errors[row] = sum / (double)rows->k;
    return import_round_row(rows->recipe, w, rows->k, GRID_BITS_MAX, rows->q + row * rows->k, &rows->scales[row]);
}

/* Loads a linear at 8 bits, and measures the errors of its channels at SENSITIVITY_BITS. */
static int probe_linear(Measuring *measuring, const ImportLinear *linear, BackendLinear **linearp, ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    const ImportModel *model = calibrated->model;
    _cleanup_(freep) int8_t *q = malloc(linear->n * linear->k);
    _cleanup_(freep) float *scales = malloc(linear->n * sizeof(*scales));
    _cleanup_(freep) int8_t *probed = malloc(worker_pool_n_threads(model->pool) * linear->k);
    double *errors = calloc(linear->n, sizeof(*errors));
    ProbeRows rows = { model->recipe, linear->k, q, scales, probed, errors };
    int r;

    measuring->sensitivity->losses[linear->layer][linear->role] = errors;
    if (!q || !scales || !probed || !errors)
        return out_of_memory(measuring, err);
    r = import_each_row(model, linear, 0, linear->n, probe_row, &rows, err);
    return r ? r
             : calibrated_linear_new(calibrated, linearp, linear, q, scales,
                                     measuring->layers[measuring->index].vectors, err);
}

static int probe_op(void *arg, const ArchOp *op, float *x, size_t rows, size_t k, BackendLinear **linears,
                    ErrText *err) {
    Measuring *measuring = arg;
    const ImportModel *model = measuring->calibrated->model;
    const ImportLayer *layer = &model->layers[1 + measuring->index];
    int r;

    r = import_monitor_check(model->monitor, err);
    if (r)
        return r;
    r = keep_inputs(measuring, x, rows, k, import_linear_of(layer, op->w[0])->rotation_block,
                    &measuring->layers[measuring->index].inputs[op->w[0]], err);
    for (size_t i = 0; i < op->n && !r; i++)
        r = probe_linear(measuring, import_linear_of(layer, op->w[i]), &linears[op->w[i]], err);
    return r;
}

static int forward(Measuring *measuring, ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    const ImportModel *model = calibrated->model;
    size_t n_values = measuring->n_rows * model->hparams.n_embd;
    int r;

    for (uint32_t i = 0; i < model->hparams.n_layers; i++) {
        MeasuredLayer *layer = &measuring->layers[i];

        measuring->index = i;
        layer->stream = copy_of(layer_walk_stream(measuring->walk), n_values);
        if (!layer->stream)
            return out_of_memory(measuring, err);
        r = calibrated_vectors_read(calibrated, &model->layers[1 + i], layer->vectors, err);
        if (!r)
            r = layer_walk_layer(measuring->walk, i, layer->linears, layer->vectors, probe_op, measuring, err);
        if (r)
            return r;
        import_monitor_part(model->monitor, 0.6 * (double)(i + 1) / (double)model->hparams.n_layers);
    }
    measuring->last = copy_of(layer_walk_stream(measuring->walk), n_values);
    return measuring->last ? 0 : out_of_memory(measuring, err);
}

/* --- backward: what they do to the answers ------------------------------------------------------------------------ */

typedef struct FisherLoop {
    const float *d; /* f32[rows][n]: gradient of the product's output */
    const float *x; /* f32[rows][k]: inputs as errors meet them */
    size_t rows, n, k;
    float *scratch; /* f32[n_threads][CHANNELS_AT_ONCE][k] */
    double factor;
    double *losses; /* [n]; in: the mean square of a weight's error */
} FisherLoop;

/* Multiplies the losses by the squared gradients: independent errors of variance v in a channel's weights change the
 * answers by half v times the square of the gradient by those weights. */
static void add_losses(void *arg, size_t begin, size_t end, unsigned int worker) {
    const FisherLoop *loop = arg;
    float *gradient = loop->scratch + worker * CHANNELS_AT_ONCE * loop->k;

    for (size_t first = begin * CHANNELS_AT_ONCE; first < end * CHANNELS_AT_ONCE && first < loop->n;
         first += CHANNELS_AT_ONCE) {
        size_t n = MIN(loop->n - first, CHANNELS_AT_ONCE);

        blas_product(&(BlasProduct){
            .m = n,
            .n = loop->k,
            .k = loop->rows,
            .transpose_a = true,
            .alpha = 1,
            .a = loop->d + first,
            .b = loop->x,
            .c = gradient,
            .a_stride = loop->n,
            .b_stride = loop->k,
            .c_stride = loop->k,
        });
        for (size_t c = 0; c < n; c++) {
            double square = 0;

            for (size_t i = 0; i < loop->k; i++)
                square += (double)gradient[c * loop->k + i] * (double)gradient[c * loop->k + i];
            loop->losses[first + c] *= square * loop->factor;
        }
    }
}

static int backward_product(Measuring *measuring, const ArchOp *op, ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    const ImportModel *model = calibrated->model;
    const ImportLayer *layer = &model->layers[1 + measuring->index];
    const ImportLinear *first = import_linear_of(layer, op->w[0]);
    const size_t k = first->k;
    float *d_x = measuring->gradients[op->in], *w[OP_WEIGHTS_MAX] = { 0 };
    _cleanup_(freep) float *scratch =
        malloc(worker_pool_n_threads(model->pool) * CHANNELS_AT_ONCE * k * sizeof(*scratch));
    int r = scratch ? calibrated_read(calibrated, layer, op, w, err) : out_of_memory(measuring, err);

    memset(d_x, 0, measuring->n_rows * k * sizeof(*d_x));
    for (size_t i = 0; i < op->n && !r; i++) {
        FisherLoop loop = {
            .d = measuring->gradients[op->out[i]],
            .x = measuring->layers[measuring->index].inputs[op->w[0]],
            .rows = measuring->n_rows,
            .n = import_linear_of(layer, op->w[i])->n,
            .k = k,
            .scratch = scratch,
            .factor = 0.5 / (double)measuring->n_answers,
            .losses = measuring->sensitivity->losses[measuring->index][op->w[i]],
        };

        worker_pool_run(model->pool, add_losses, &loop, (loop.n + CHANNELS_AT_ONCE - 1) / CHANNELS_AT_ONCE, 1);
        backward_linear(loop.d, w[i], loop.rows, loop.n, k, d_x, model->pool);
    }
    for (size_t row = 0; row < measuring->n_rows; row++)
        rotate_row(d_x + row * k, k, first->rotation_block);
    for (size_t i = 0; i < op->n; i++)
        free(w[i]);
    return r;
}

static void add_to(float *to, const float *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] += values[i];
}

/* Goes back through one operator; saved[] holds its slots before it. */
static int backward_op(Measuring *measuring, const ArchOp *op, float *const *saved, ErrText *err) {
    const ImportModel *model = measuring->calibrated->model;
    const Hparams *hparams = &model->hparams;
    float *const *vectors = measuring->layers[measuring->index].vectors, **d = measuring->gradients;
    const RopeRows *rope = layer_walk_rope(measuring->walk, measuring->index);
    const size_t rows = measuring->n_rows, width = layer_slot_width(hparams, op->in),
                 n_windows = rows / CALIBRATION_WINDOW_TOKENS;
    float *out = d[op->out[0]];
    int r = 0;

    switch (op->kind) {
    case OP_NORM:
        (hparams->arch->norm == NORM_LAYER ? backward_layer_norm : backward_norm)(
            saved[op->in], vectors[op->w[0]], hparams->norm_eps, rows, width, out, model->pool);
        if (op->in != op->out[0])
            add_to(d[op->in], out, rows * width);
        break;
    case OP_HEAD_NORM:
        backward_norm(saved[op->in], vectors[op->w[0]], hparams->norm_eps, rows * (width / hparams->head_size),
                      hparams->head_size, out, model->pool);
        break;
    case OP_LINEAR:
        return backward_product(measuring, op, err);
    case OP_ROPE:
        for (size_t i = 0; hparams_layer_turns(hparams, measuring->index) && i < n_windows; i++)
            backward_rope(out + i * CALIBRATION_WINDOW_TOKENS * width, rope->cos, rope->sin, CALIBRATION_WINDOW_TOKENS,
                          width / hparams->head_size, hparams->head_size, hparams->n_rot,
                          hparams->arch->rope == ROPE_NEOX);
        break;
    case OP_ATTENTION:
        r = backward_attention(
            &(BackwardAttention){
                .q = saved[SLOT_Q],
                .k = saved[SLOT_K],
                .v = saved[SLOT_V],
                .d_q = d[SLOT_Q],
                .d_k = d[SLOT_K],
                .d_v = d[SLOT_V],
                .n_windows = n_windows,
                .window = CALIBRATION_WINDOW_TOKENS,
                .n_heads = hparams->n_heads,
                .n_kv_heads = hparams->n_kv_heads,
                .head_size = hparams->head_size,
                .sees = hparams_layer_is_local(hparams, measuring->index) ? hparams->window.positions : 0,
                .scale = hparams->attention_scale,
                .soft_cap = hparams->attention_cap,
            },
            model->pool);
        break;
    case OP_GATED:
        backward_gated(saved[SLOT_GATE], saved[SLOT_UP], rows * width, hparams->arch->activation == ACTIVATION_GELU,
                       d[SLOT_GATE], d[SLOT_UP], model->pool);
        break;
    case OP_ACTIVATE:
        backward_activation(saved[op->in], rows * width, hparams->arch->activation == ACTIVATION_GELU, d[op->in],
                            model->pool);
        break;
    case OP_ADD:
        memcpy(d[op->in], d[SLOT_X], rows * width * sizeof(float));
        break;
    }
    return r ? out_of_memory(measuring, err) : 0;
}

/* Saves the slots that the backward pass of an operator needs. */
static int save_slots(Measuring *measuring, const ArchOp *op, float **saved, ErrText *err) {
    static const Slot attention[] = { SLOT_Q, SLOT_K, SLOT_V }, gated[] = { SLOT_GATE, SLOT_UP };
    const bool is_alone = op->kind == OP_NORM || op->kind == OP_HEAD_NORM || op->kind == OP_ACTIVATE;
    const Slot *slots = op->kind == OP_ATTENTION ? attention : op->kind == OP_GATED ? gated : &op->in;
    size_t n = op->kind == OP_ATTENTION ? ARRAY_LEN(attention) : op->kind == OP_GATED ? ARRAY_LEN(gated) : is_alone;

    for (size_t i = 0; i < n; i++) {
        saved[slots[i]] =
            copy_of(layer_walk_slot(measuring->walk, slots[i]),
                    measuring->n_rows * layer_slot_width(&measuring->calibrated->model->hparams, slots[i]));
        if (!saved[slots[i]])
            return out_of_memory(measuring, err);
    }
    return 0;
}

/* Computes the layer forward once more, and then backward. */
static int backward_layer(Measuring *measuring, float *(*saved)[_SLOT_N], ErrText *err) {
    const Hparams *hparams = &measuring->calibrated->model->hparams;
    const Arch *arch = hparams->arch;
    MeasuredLayer *layer = &measuring->layers[measuring->index];
    int r = 0;

    memcpy(layer_walk_stream(measuring->walk), layer->stream, measuring->n_rows * hparams->n_embd * sizeof(float));
    for (size_t i = 0; i < arch->n_ops && !r; i++) {
        r = save_slots(measuring, &arch->ops[i], saved[i], err);
        if (!r)
            r = layer_walk_op(measuring->walk, measuring->index, &arch->ops[i], layer->linears, layer->vectors, err);
    }
    for (size_t i = arch->n_ops; i-- > 0 && !r;)
        r = backward_op(measuring, &arch->ops[i], saved[i], err);
    return r;
}

static int backward(Measuring *measuring, ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    const Hparams *hparams = &calibrated->model->hparams;
    const size_t n_ops = hparams->arch->n_ops;
    int r;

    measuring->walk = layer_walk_free(measuring->walk);
    r = calibrated_walk_new(calibrated, &measuring->walk, measuring->n_rows / CALIBRATION_WINDOW_TOKENS, err);
    if (r)
        return r;
    for (size_t slot = 0; slot < _SLOT_N; slot++) {
        measuring->gradients[slot] = malloc(measuring->n_rows * layer_slot_width(hparams, (Slot)slot) * sizeof(float));
        if (!measuring->gradients[slot])
            return out_of_memory(measuring, err);
    }
    memcpy(layer_walk_stream(measuring->walk), measuring->last, measuring->n_rows * hparams->n_embd * sizeof(float));
    r = answer_gradient(calibrated, measuring->walk, measuring->answers, measuring->n_answers,
                        measuring->gradients[SLOT_X], err);
    for (uint32_t i = hparams->n_layers; i-- > 0 && !r;) {
        float *(*saved)[_SLOT_N] = calloc(n_ops, sizeof(*saved));

        r = import_monitor_check(calibrated->model->monitor, err);
        if (!r && !saved)
            r = out_of_memory(measuring, err);
        measuring->index = i;
        if (!r)
            r = backward_layer(measuring, saved, err);
        for (size_t op = 0; saved && op < n_ops; op++)
            for (size_t slot = 0; slot < _SLOT_N; slot++)
                free(saved[op][slot]);
        free(saved);
        import_monitor_part(calibrated->model->monitor, 1 - 0.4 * (double)i / (double)hparams->n_layers);
    }
    return r;
}

/* Middle of the i-th of n_parts equal parts of n. */
static size_t middle(size_t i, size_t n_parts, size_t n) {
    return (2 * i + 1) * n / (2 * n_parts);
}

/* Walks over all rows, of windows from all over the text; the probe's windows come first. */
static int walk_all(Measuring *measuring, ErrText *err) {
    Calibrated *calibrated = measuring->calibrated;
    const size_t n = MIN(calibrated->n_windows, WINDOWS), n_probe = MIN(PROBE_WINDOWS, n),
                 len = CALIBRATION_WINDOW_TOKENS;
    _cleanup_(freep) uint32_t *tokens = malloc(n * len * sizeof(*tokens));
    size_t n_first = 0, n_last = n_probe;
    int r;

    if (!tokens)
        return out_of_memory(measuring, err);
    for (size_t i = 0; i < n; i++) {
        bool probed = n_first < n_probe && i >= middle(n_first, n_probe, n);

        memcpy(tokens + (probed ? n_first++ : n_last++) * len,
               calibrated->tokens + middle(i, n, calibrated->n_windows) * len, len * sizeof(*tokens));
    }
    measuring->n_rows = n_probe * len;
    r = calibrated_walk_new(calibrated, &measuring->walk, n, err);
    if (!r)
        layer_walk_embed(measuring->walk, calibrated->embedding, tokens);
    return r;
}

static int measuring_init(Measuring *measuring, ErrText *err) {
    uint32_t n_layers = measuring->calibrated->model->hparams.n_layers;
    int r = walk_all(measuring, err);

    if (r)
        return r;
    measuring->layers = calloc(n_layers, sizeof(*measuring->layers));
    measuring->answers = calloc(measuring->n_rows, sizeof(*measuring->answers));
    measuring->sensitivity = calloc(1, sizeof(*measuring->sensitivity));
    if (!measuring->layers || !measuring->answers || !measuring->sensitivity)
        return out_of_memory(measuring, err);
    for (size_t row = 0; row < measuring->n_rows; row++)
        if (row % CALIBRATION_WINDOW_TOKENS >= PROBE_FIRST_ROW && row % PROBE_ROW_STEP == 0)
            measuring->answers[measuring->n_answers++] = row;
    measuring->sensitivity->n_layers = n_layers;
    measuring->sensitivity->losses = calloc(n_layers, sizeof(*measuring->sensitivity->losses));
    return measuring->sensitivity->losses ? 0 : out_of_memory(measuring, err);
}

/**
 * sensitivity_measure() - measure the loss of every channel of the layers' linears
 *
 * Time: a factor for every input, a forward pass of WINDOWS windows, and a forward and a backward pass of
 * PROBE_WINDOWS of them.
 * Memory: the model at 8 bits, the rows of WINDOWS windows, the probe's inputs of all products.
 * Return: 0, IMPORT_E_CORRUPT, IMPORT_E_CANCELLED, IMPORT_E_CHANGED, -errno.
 */
int sensitivity_measure(Sensitivity **sensitivityp, Calibrated *calibrated, ErrText *err) {
    _cleanup_(measuring_deinit) Measuring measuring = { .calibrated = calibrated };
    int r;

    r = measuring_init(&measuring, err);
    if (!r)
        r = forward(&measuring, err);
    if (!r)
        r = backward(&measuring, err);
    if (r)
        return r;
    *sensitivityp = steal(&measuring.sensitivity);
    return 0;
}
