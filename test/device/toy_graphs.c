// SPDX-License-Identifier: Apache-2.0
#include "test/device/toy_graphs.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backends/borrowed_ops.h"
#include "backends/cpu/attention/kv_head.h"
#include "base/clock.h"
#include "base/min_max.h"
#include "quant/format/ggml_type.h"
#include "quant/format/pack.h"
#include "quant/rotate.h"

enum {
    PREFILL_ROWS = 64, /* rows of a graph for prompts */
    DECODE_ROWS = 16,  /* rows of a graph for generation */
    SLOTS = 2,         /* products under way at most */
};

struct BackendLinear {
    size_t n, k, rows; /* rows: of the graph that runs */
    uint32_t rotation_block;
    float scale;         /* scale of all inputs; 0: each row has its own */
    PackPlan plan;       /* offsets NULL: the package has rows of int8 */
    int8_t *weights;     /* int8[n][k]: in `own`, in an image, or at linear_at()'s address */
    AccountedBlock own;  /* memory of the weights, unless an image or linear_at() provides it */
    Bill mapped;         /* charge of an image */
    _Atomic bool is_bad; /* a weight of -128 came */
    float *bias, scales[];
};

/* Result of a submitted product. */
typedef struct Slot {
    int r;
    ErrText err;
    BackendTime time;
} Slot;

typedef struct ToyGraphs {
    Backend backend;
    AccountedBlock inputs; /* int8[PREFILL_ROWS][width]: inputs of a graph */
    AccountedBlock row;    /* f32[width] */
    Slot slots[SLOTS];
} ToyGraphs;

/* --- matrices ----------------------------------------------------------------------------------------------------- */

static BackendLinear *graphs_linear_free(BackendLinear *linear) {
    if (!linear)
        return NULL;
    pack_plan_deinit(&linear->plan);
    accounted_block_deinit(&linear->own);
    bill_settle(&linear->mapped);
    free(linear);
    return NULL;
}
DEFINE_CLEANUP(BackendLinear, graphs_linear_free)

static int refuse(const LinearSource *source, const char *why, ErrText *err) {
    return err_set(err, BACKEND_E_WEIGHTS, "tensor '%s': %s", source->name, why);
}

/* Refuses all but int8 matrices of this device, with a text that gives the reason: a device never mistakes one form for
 * another. */
static int check_source(const LinearSource *source, ErrText *err) {
    const float scale = source->activations.scale;

    if (source->type != GGML_I8)
        return refuse(source, "this NPU reads packages: coordgenctl model import makes one", err);
    if (!source->n || !source->k || !source->scales || !rotate_block_fits(source->rotation_block, source->k))
        return refuse(source, "no such matrix can be: import the model again", err);
    if (scale != 0 && !(scale >= LINEAR_SCALE_MIN && scale <= LINEAR_SCALE_MAX))
        return refuse(source, "its inputs have a scale that is none: import the model again", err);
    if (source->activations.shadow)
        return refuse(source, "this NPU has no outliers beside a product: import the model with prune-outliers=100",
                      err);
    return 0;
}

/* Finds the place of the integers. */
static int place_weights(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    const size_t len_bytes = source->n * source->k;
    int r = 0;

    if ((source->image || source->streamed) && source->image_bytes != len_bytes)
        return err_set(err, BACKEND_E_IMAGE, "tensor '%s': an image of another size", source->name);
    if (source->streamed)
        return 0; /* linear_at() sets the address; the owner of that memory has charged it */
    if (source->image)
        r = account_charge(backend->accounts, ACCOUNT_WEIGHTS, &linear->mapped, len_bytes);
    else
        r = accounted_block_init(&linear->own, backend->accounts, ACCOUNT_WEIGHTS, len_bytes);
    if (r)
        return err_set(err, BACKEND_E_MEMORY, "tensor '%s': no memory for it", source->name);
    linear->weights = source->image ? (int8_t *)source->image : linear->own.data;
    return 0;
}

static int graphs_linear_begin(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    _cleanup_(graphs_linear_freep) BackendLinear *linear = NULL;
    int r = check_source(source, err);

    if (r)
        return r;
    linear = calloc(1, sizeof(*linear) + 2 * source->n * sizeof(float));
    if (!linear)
        return err_set(err, -ENOMEM, "tensor '%s': out of memory", source->name);
    linear->n = source->n;
    linear->k = source->k;
    linear->rows = DECODE_ROWS;
    linear->rotation_block = source->rotation_block;
    linear->scale = source->activations.scale;
    linear->bias = linear->scales + source->n;
    memcpy(linear->scales, source->scales, source->n * sizeof(float));
    if (source->bias)
        memcpy(linear->bias, source->bias, source->n * sizeof(float));
    if (source->bits && (r = pack_plan_init(&linear->plan, source->grid, source->bits, source->n, source->k)))
        return r == -EINVAL ? refuse(source, "it cannot be packed so: import the model again", err)
                            : err_set(err, r, "tensor '%s': out of memory", source->name);
    r = place_weights(backend, linear, source, err);
    if (!r)
        *linearp = steal(&linear);
    return r;
}

static bool has_good_weights(const int8_t *row, size_t k) {
    return !memchr(row, -128, k);
}

/* Expands one block of 16 outputs. The package has rows, or packed bytes in an order of their own. */
static bool expand_block(const BackendLinear *linear, size_t block, size_t first, const void *bytes, int8_t *weights) {
    const bool is_packed = linear->plan.offsets;
    bool is_good = true;

    if (is_packed)
        unpack_block(&linear->plan, block, (const uint8_t *)bytes - linear->plan.offsets[first], weights);
    for (size_t i = block * PACK_BLOCK_CHANNELS; i < (block + 1) * PACK_BLOCK_CHANNELS; i++) {
        const size_t o = is_packed ? linear->plan.channels[i] : i;

        if (o >= linear->n)
            continue;
        if (!is_packed)
            memcpy(weights + o * linear->k, (const int8_t *)bytes + (i - first * PACK_BLOCK_CHANNELS) * linear->k,
                   linear->k);
        is_good = is_good && has_good_weights(weights + o * linear->k, linear->k);
    }
    return is_good;
}

static bool graphs_linear_expand(const Backend *backend, const BackendLinear *linear, size_t block_begin,
                                 size_t block_end, const void *bytes, void *integers) {
    bool is_good = true;

    for (size_t block = block_begin; block < block_end; block++)
        is_good = expand_block(linear, block, block_begin, bytes, integers) && is_good;
    return is_good;
}

static void graphs_linear_fill(const Backend *backend, BackendLinear *linear, size_t block_begin, size_t block_end,
                               const void *bytes) {
    if (!graphs_linear_expand(backend, linear, block_begin, block_end, bytes, linear->weights))
        atomic_store(&linear->is_bad, true);
}

static int graphs_linear_finish(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    return linear->is_bad ? refuse(source, "it holds the value -128: import the model again", err) : 0;
}

/* Makes a matrix from a whole source: fills all of its blocks at once. */
static int graphs_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    _cleanup_(graphs_linear_freep) BackendLinear *linear = NULL;
    int r;

    if (source->packed ? !source->bits : !source->data)
        return refuse(source, "this NPU reads packages: coordgenctl model import makes one", err);
    r = graphs_linear_begin(backend, &linear, source, err);
    if (r)
        return r;
    graphs_linear_fill(backend, linear, 0, (source->n + PACK_BLOCK_CHANNELS - 1) / PACK_BLOCK_CHANNELS,
                       source->packed ? (const void *)source->packed : source->data);
    r = graphs_linear_finish(backend, linear, source, err);
    if (!r)
        *linearp = steal(&linear);
    return r;
}

static const void *graphs_linear_image(const BackendLinear *linear, size_t *len_bytesp) {
    *len_bytesp = linear->n * linear->k;
    return linear->weights;
}

static int graphs_linear_image_bytes(const LinearSource *source, size_t *len_bytesp, ErrText *err) {
    *len_bytesp = source->n * source->k;
    return 0;
}

static void graphs_linear_at(BackendLinear *linear, void *integers) {
    linear->weights = integers;
}

static void graphs_linear_shape(BackendLinear *linear, size_t rows, size_t rows_at_once) {
    linear->rows = rows;
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Stands for the vendor's library: a compiled graph reads int8[rows][k] and gives the exact sums of one output, for all
 * rows that it was compiled for. A port submits to its driver here, and returns -EIO with a text on failure. */
static int npu_execute(const BackendLinear *graph, const int8_t *inputs, size_t output, int32_t *sums, ErrText *err) {
    const int8_t *w = graph->weights + output * graph->k;

    for (size_t row = 0; row < graph->rows; row++) {
        sums[row] = 0;
        for (size_t i = 0; i < graph->k; i++)
            sums[row] += inputs[row * graph->k + i] * w[i];
    }
    return 0;
}

/* Quantizes a row by the formula of LinearActivations. Returns its scale. */
static float to_int8(const BackendLinear *linear, const float *x, float *turned, int8_t *q) {
    float scale = linear->scale, inverse = 1 / scale, greatest = 0;

    memcpy(turned, x, linear->k * sizeof(float));
    rotate_row(turned, linear->k, linear->rotation_block);
    for (size_t i = 0; i < linear->k; i++)
        greatest = fmaxf(greatest, fabsf(turned[i]));
    if (!(scale > 0)) {
        inverse = 127.0f / greatest;
        scale = greatest / 127.0f;
        if (!(greatest > 0 && inverse <= FLT_MAX))
            scale = inverse = 0;
    }
    for (size_t i = 0; i < linear->k; i++)
        q[i] = (int8_t)fmaxf(-127, fminf(127, rintf(turned[i] * inverse)));
    return scale;
}

/* Runs a graph once, for at most its number of rows: the other rows are zeros, and their results are ignored. */
static int run_graph(ToyGraphs *self, const BackendLinear *graph, const float *x, size_t rows, float *y, ErrText *err) {
    int8_t *inputs = self->inputs.data;
    float scales[PREFILL_ROWS];
    int32_t sums[PREFILL_ROWS];

    for (size_t row = 0; row < rows; row++)
        scales[row] = to_int8(graph, x + row * graph->k, self->row.data, inputs + row * graph->k);
    memset(inputs + rows * graph->k, 0, (graph->rows - rows) * graph->k);
    for (size_t o = 0; o < graph->n; o++) {
        int r = npu_execute(graph, inputs, o, sums, err);

        if (r)
            return r;
        for (size_t row = 0; row < rows; row++)
            y[row * graph->n + o] = (float)sums[row] * (scales[row] * graph->scales[o]) + graph->bias[o];
    }
    return 0;
}

/* Runs the graphs of a call, as often as its rows need. */
static int graphs_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                         size_t rows, const LinearOutput *out, ErrText *err) {
    int r = 0;

    for (size_t m = 0; m < n; m++)
        for (size_t first = 0; !r && first < rows; first += linears[m]->rows) {
            const size_t left = rows - first;

            r = run_graph((ToyGraphs *)backend, linears[m], in->x + first * linears[m]->k, MIN(left, linears[m]->rows),
                          out->y[m] + first * linears[m]->n, err);
        }
    return r;
}

/* --- the queue ---------------------------------------------------------------------------------------------------- */

static bool graphs_is_queued(const BackendLinear *linear) {
    return linear->scale > 0;
}

/* Runs products on the processors and stores the time. */
static int graphs_linear_here(Backend *backend, const BackendLinear *const *linears, size_t n, const float *x,
                              size_t rows, float *const *y, BackendTime *time, ErrText *err) {
    int r;

    time->start_ns = clock_now_ns();
    r = graphs_linear(backend, linears, n, &(LinearInput){ .x = x }, rows, &(LinearOutput){ .y = y }, err);
    time->end_ns = clock_now_ns();
    return r;
}

/* Starts a product. A port prepares the inputs, hands them to its driver and returns at once. This driver has no
 * thread, so the product is over after the submission; linear_end() reports a failure. */
static void graphs_linear_submit(Backend *backend, size_t slot, const BackendLinear *const *linears, size_t n,
                                 const float *x, size_t rows, float *const *y) {
    Slot *product = &((ToyGraphs *)backend)->slots[slot];

    product->r = graphs_linear_here(backend, linears, n, x, rows, y, &product->time, &product->err);
}

static bool graphs_linear_is_over(const Backend *backend, size_t slot) {
    return true;
}

static int graphs_linear_end(Backend *backend, size_t slot, BackendTime *time, ErrText *err) {
    const Slot *product = &((const ToyGraphs *)backend)->slots[slot];

    *time = product->time;
    return product->r ? err_set(err, product->r, "%s", product->err.text) : 0;
}

/* --- the embedding ------------------------------------------------------------------------------------------------ */

static void graphs_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows,
                         float factor, float *y) {
    const size_t k = embedding->k;

    for (size_t row = 0; row < rows; row++, y += k) {
        for (size_t i = 0; i < k; i++)
            y[i] = (float)embedding->weights[tokens[row] * k + i] * embedding->scales[tokens[row]];
        rotate_row(y, k, embedding->rotation_block);
        for (size_t i = 0; i < k; i++)
            y[i] *= factor;
    }
}

/* --- the device --------------------------------------------------------------------------------------------------- */

static Backend *graphs_free(Backend *backend) {
    ToyGraphs *self = (ToyGraphs *)backend;

    accounted_block_deinit(&self->inputs);
    accounted_block_deinit(&self->row);
    backend_free(backend->host);
    free(self);
    return NULL;
}

static const char *graphs_kernel(const Backend *backend) {
    return "graphs of 16 and 64 rows";
}

static int grow(Backend *backend, AccountedBlock *block, size_t len_bytes, ErrText *err) {
    if (block->len_bytes >= len_bytes)
        return 0;
    accounted_block_deinit(block);
    if (accounted_block_init(block, backend->accounts, ACCOUNT_ACTIVATIONS, len_bytes))
        return err_set(err, BACKEND_E_MEMORY, "no memory for the inputs of a graph");
    return 0;
}

static int graphs_reserve(Backend *backend, const BackendShape *shape, ErrText *err) {
    ToyGraphs *self = (ToyGraphs *)backend;
    int r = borrowed_reserve(backend, shape, err);

    if (!r)
        r = grow(backend, &self->inputs, PREFILL_ROWS * shape->width, err);
    return r ? r : grow(backend, &self->row, shape->width * sizeof(float), err);
}

static const BackendOps ops = { .name = "toy-graphs",
                                .kv_type = "int8",
                                .kv_row_bytes = kv_row_bytes,
                                .kv_block_positions = KV_BLOCK,
                                .free = graphs_free,
                                .kernel = graphs_kernel,
                                .reserve = graphs_reserve,
                                .linear_new = graphs_linear_new,
                                .linear_begin = graphs_linear_begin,
                                .linear_fill = graphs_linear_fill,
                                .linear_finish = graphs_linear_finish,
                                .linear_free = graphs_linear_free,
                                .linear_image = graphs_linear_image,
                                .linear_image_bytes = graphs_linear_image_bytes,
                                .image_layout = "toy-graphs 1",
                                .linear_at = graphs_linear_at,
                                .prefill_rows = PREFILL_ROWS,
                                .decode_rows = DECODE_ROWS,
                                .linear_shape = graphs_linear_shape,
                                .linear_expand = graphs_linear_expand,
                                .linear = graphs_linear,
                                .product_slots = SLOTS,
                                .is_queued = graphs_is_queued,
                                .linear_submit = graphs_linear_submit,
                                .linear_is_over = graphs_linear_is_over,
                                .linear_end = graphs_linear_end,
                                .linear_here = graphs_linear_here,
                                .embed = graphs_embed,
                                .shadow_counts = borrowed_shadow_counts,
                                BORROWED_OPERATORS };

static int graphs_new(Backend **backendp, uint32_t cpu, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    ToyGraphs *made = calloc(1, sizeof(*made));
    int r;

    if (!made)
        return err_no_memory(err);
    made->backend = (Backend){ .ops = &ops, .pool = pool, .accounts = accounts };
    r = backend_cpu_new(&made->backend.host, cpu, pool, accounts, err);
    if (r)
        graphs_free(&made->backend);
    else
        *backendp = &made->backend;
    return r;
}

const DeviceUnderTest toy_graphs_device = { .name = "toy-graphs",
                                            .device = { "toy-graphs", true, graphs_new, true },
                                            .takes = DEVICE_TAKES_PACKAGES & ~(uint32_t)DEVICE_TAKES_SHADOW,
                                            .is_int8 = true,
                                            .row_error = 1e-6,
                                            .attention_error = 0.03,
                                            .is_balanced = true };
