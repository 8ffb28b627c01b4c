/*
 * Weight matrices of the cpu device: int8 in the tiles of the int8 products, or packed as they come from the package,
 * and the products and embedding rows of both. A packed matrix gives the bits of the int8 matrix that it unpacks to.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu_private.h"
#include "base/cleanup.h"
#include "quant/ggml_type.h"
#include "quant/grid.h"
#include "quant/pack.h"

struct BackendLinear {
    size_t n, k, k_tiles, n_blocks;
    Int8Weights int8;     /* tiles is NULL when packed */
    PackedWeights packed; /* packed is NULL when not */
    /* packed, channels not in order: positions of the channels of width w are [run_ends[w + 1], run_ends[w]), rising. */
    size_t run_ends[GRID_BITS_MAX + 2];
    uint32_t rotation_block;
    float static_scale;    /* of the inputs; 0: dynamic-row */
    Shadow *shadow;        /* NULL: inputs past static_scale are clipped */
    AccountedBlock memory; /* all arrays of int8 or packed */
};

BackendLinear *cpu_linear_free(BackendLinear *linear) {
    if (linear) {
        accounted_block_deinit(&linear->memory);
        shadow_free(linear->shadow);
        free(linear);
    }
    return NULL;
}
DEFINE_CLEANUP(BackendLinear, cpu_linear_free)

/* The memory of all arrays, of which the first begins it. */
static int linear_memory(Backend *backend, BackendLinear *linear, const LinearSource *source, size_t len_bytes,
                         ErrText *err) {
    int r = accounted_block_init(&linear->memory, backend->accounts, ACCOUNT_WEIGHTS, len_bytes);

    return r ? err_set(err, r < 0 ? r : BACKEND_E_MEMORY, "no memory for the %zu bytes of tensor '%s'", len_bytes,
                       source->name)
             : 0;
}

static int below_range(const LinearSource *source, ErrText *err) {
    return err_set(err, BACKEND_E_WEIGHTS,
                   "tensor '%s' holds the value -128; int8 weights are -127..127: import the model again",
                   source->name);
}

/* --- int8 ----------------------------------------------------------------------------------------------------------- */

typedef struct LayoutLoop {
    const LinearSource *source;
    int8_t *tiles;
    int32_t *sums;
    _Atomic bool below_range;
} LayoutLoop;

static void layout_blocks(void *arg, size_t begin, size_t end, unsigned int worker) {
    LayoutLoop *loop = arg;
    const LinearSource *source = loop->source;
    size_t last = end * INT8_TILE_OUTPUTS < source->n ? end * INT8_TILE_OUTPUTS : source->n;
    const int8_t *w = source->data;
    int smallest = 0;

    for (size_t i = begin * INT8_TILE_OUTPUTS * source->k; i < last * source->k; i++)
        smallest = w[i] < smallest ? w[i] : smallest;
    if (smallest < -127)
        loop->below_range = true;
    int8_weights_layout(w, source->n, source->k, begin, end, loop->tiles, loop->sums);
}

/* One block of memory: tiles, then sums, scales and bias, each [n_blocks * 16]. */
static int fill_int8(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    size_t n_padded = linear->n_blocks * INT8_TILE_OUTPUTS;
    size_t tiles_bytes = linear->n_blocks * linear->k_tiles * INT8_TILE_BYTES;
    LayoutLoop loop = { .source = source };
    float *scales, *bias;
    int r;

    r = linear_memory(backend, linear, source, tiles_bytes + n_padded * (sizeof(int32_t) + 2 * sizeof(float)), err);
    if (r)
        return r;
    loop.tiles = linear->memory.data;
    loop.sums = (int32_t *)(loop.tiles + tiles_bytes);
    scales = (float *)(loop.sums + n_padded);
    bias = scales + n_padded;
    worker_pool_run(backend->pool, layout_blocks, &loop, linear->n_blocks, 1);
    if (loop.below_range)
        return below_range(source, err);
    memcpy(scales, source->scales, source->n * sizeof(float));
    if (source->bias)
        memcpy(bias, source->bias, source->n * sizeof(float));
    linear->int8 = (Int8Weights){
        .n = linear->n,
        .k = linear->k,
        .k_tiles = linear->k_tiles,
        .n_blocks = linear->n_blocks,
        .tiles = loop.tiles,
        .sums = loop.sums,
        .scales = scales,
        .bias = source->bias ? bias : NULL,
    };
    return 0;
}

/* --- packed --------------------------------------------------------------------------------------------------------- */

/* The arrays of a PackedWeights while they are filled. */
typedef struct PackedArrays {
    uint8_t *packed;
    int32_t *sums;
    float *scales, *bias;
} PackedArrays;

typedef struct PackedLoop {
    const LinearSource *source;
    const PackedKernels *kernels;
    const PackedWeights *weights;
    PackedWeights ones; /* the same weights with scales of 1, in order */
    Int8Rows ones_row;
    PackedArrays to;
    _Atomic bool below_range;
} PackedLoop;

/* Whether code 0 of 8 bits, -128, is among the weights of a block (in the padding it is at home). */
static bool holds_code_zero(const PackedLoop *loop, size_t block) {
    const PackedWeights *weights = loop->weights;
    const size_t n_left = weights->n - block * INT8_TILE_OUTPUTS;
    const uint8_t *packed = weights->packed + weights->offsets[block];

    for (size_t t = 0; t < weights->k_tiles; t++, packed += INT8_TILE_BYTES) {
        const size_t k_left = weights->k - t * INT8_TILE_INPUTS;
        _Alignas(64) int8_t tile[INT8_TILE_BYTES];
        int smallest = 0;

        loop->kernels->unpack->fn(packed, GRID_BITS_MAX, 1, tile);
        for (size_t i = 0; i < INT8_TILE_BYTES; i++)
            smallest = tile[i] < smallest ? tile[i] : smallest;
        for (size_t i = 0; smallest < -127 && i < INT8_TILE_BYTES; i++)
            if (tile[i] < -127 && i / 64 * 4 + i % 4 < k_left && i % 64 / 4 < n_left)
                return true;
    }
    return false;
}

/* The sum of a channel's levels is its product with a row of ones; at most 128 x 131072 = 2^24, exact in float32. */
static void copy_blocks(void *arg, size_t begin, size_t end, unsigned int worker) {
    PackedLoop *loop = arg;
    const uint64_t *offsets = loop->weights->offsets;

    for (size_t block = begin; block < end; block++) {
        memcpy(loop->to.packed + offsets[block], loop->source->packed + offsets[block],
               offsets[block + 1] - offsets[block]);
        loop->kernels->few->fn(&loop->ones, &loop->ones_row, block, block + 1, loop->to.bias, loop->ones.n);
        for (size_t p = block * INT8_TILE_OUTPUTS; p < (block + 1) * INT8_TILE_OUTPUTS; p++)
            loop->to.sums[p] = (int32_t)loop->to.bias[p];
        if (loop->weights->bits[block] == GRID_BITS_MAX && holds_code_zero(loop, block))
            loop->below_range = true;
    }
}

/* Arrays of one block of memory, each aligned to 64. */
static size_t place(size_t *at, size_t len_bytes) {
    size_t here = *at;

    *at += (len_bytes + 63) / 64 * 64;
    return here;
}

/* One block of memory: the packed bytes as they are, then offsets, sums, scales, bias, channels and widths. */
static int place_packed(Backend *backend, BackendLinear *linear, const LinearSource *source, const PackPlan *plan,
                        PackedArrays *arrays, ErrText *err) {
    const size_t n_padded = plan->n_blocks * INT8_TILE_OUTPUTS, n_arrays = n_padded * sizeof(float);
    size_t len_bytes = 0;
    const size_t packed = place(&len_bytes, plan->offsets[plan->n_blocks]),
                 offsets = place(&len_bytes, (plan->n_blocks + 1) * sizeof(*plan->offsets)),
                 sums = place(&len_bytes, n_arrays), scales = place(&len_bytes, n_arrays),
                 bias = place(&len_bytes, n_arrays),
                 channels = place(&len_bytes, plan->in_order ? 0 : n_padded * sizeof(*plan->channels)),
                 bits = place(&len_bytes, plan->n_blocks);
    uint8_t *memory;
    int r;

    r = linear_memory(backend, linear, source, len_bytes, err);
    if (r)
        return r;
    memory = linear->memory.data;
    memcpy(memory + offsets, plan->offsets, (plan->n_blocks + 1) * sizeof(*plan->offsets));
    memcpy(memory + bits, plan->bits, plan->n_blocks);
    if (!plan->in_order)
        memcpy(memory + channels, plan->channels, n_padded * sizeof(*plan->channels));
    for (size_t i = 0; i < plan->n; i++)
        linear->run_ends[source->bits[i]]++;
    for (int width = GRID_BITS_MAX - 1; width > 0; width--)
        linear->run_ends[width] += linear->run_ends[width + 1];
    *arrays = (PackedArrays){ memory + packed, (int32_t *)(memory + sums), (float *)(memory + scales),
                              (float *)(memory + bias) };
    linear->packed = (PackedWeights){
        .n = linear->n,
        .k = linear->k,
        .k_tiles = linear->k_tiles,
        .n_blocks = linear->n_blocks,
        .packed = arrays->packed,
        .offsets = (const uint64_t *)(memory + offsets),
        .bits = memory + bits,
        .channels = plan->in_order ? NULL : (const uint32_t *)(memory + channels),
        .sums = arrays->sums,
        .scales = arrays->scales,
        .bias = source->bias ? arrays->bias : NULL,
    };
    return 0;
}

/* Fills the bytes and the sums; the arrays of scales and of the bias lend themselves to the ones and their products. */
static int copy_packed(Backend *backend, BackendLinear *linear, const LinearSource *source, const PackedArrays *arrays,
                       ErrText *err) {
    const size_t n_padded = linear->n_blocks * INT8_TILE_OUTPUTS, stride_bytes = linear->k_tiles * INT8_TILE_INPUTS;
    _cleanup_(freep) int8_t *ones = aligned_alloc(64, stride_bytes);
    const int32_t sum_of_ones = (int32_t)stride_bytes;
    const float one = 1;
    PackedLoop loop = {
        .source = source,
        .kernels = &((const CpuBackend *)backend)->kernels,
        .weights = &linear->packed,
        .ones = linear->packed,
        .ones_row = { .rows = 1, .stride_bytes = stride_bytes, .x = ones, .scales = &one, .sums = &sum_of_ones },
        .to = *arrays,
    };

    if (!ones)
        return err_set(err, -ENOMEM, "out of memory");
    memset(ones, 1, stride_bytes);
    for (size_t p = 0; p < n_padded; p++)
        arrays->scales[p] = 1;
    loop.ones.n = n_padded;
    loop.ones.channels = NULL;
    loop.ones.bias = NULL;
    worker_pool_run(backend->pool, copy_blocks, &loop, linear->n_blocks, 1);
    if (loop.below_range)
        return below_range(source, err);
    for (size_t p = 0; p < n_padded; p++) {
        const size_t channel = linear->packed.channels && p < linear->n ? linear->packed.channels[p] : p;

        arrays->scales[p] = p < linear->n ? source->scales[channel] : 0;
        arrays->bias[p] = p < linear->n && source->bias ? source->bias[channel] : 0;
    }
    return 0;
}

static int fill_packed(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    _cleanup_(pack_plan_deinit) PackPlan plan = { 0 };
    PackedArrays arrays;
    int r;

    for (size_t i = 0; i < source->n; i++)
        if (!source->bits || source->bits[i] < GRID_BITS_MIN || source->bits[i] > GRID_BITS_MAX)
            return err_set(err, BACKEND_E_WEIGHTS,
                           "tensor '%s': channel %zu is %d bits wide, packed weights have %d..%d: import the model "
                           "again",
                           source->name, i, source->bits ? source->bits[i] : 0, GRID_BITS_MIN, GRID_BITS_MAX);
    r = pack_plan_init(&plan, source->bits, source->n, source->k);
    if (r)
        return err_set(err, r, r == -ENOMEM ? "out of memory" : "tensor '%s': its widths have no layout", source->name);
    r = place_packed(backend, linear, source, &plan, &arrays, err);
    return r ? r : copy_packed(backend, linear, source, &arrays, err);
}

/* Where a channel is among the positions. */
static size_t position_of(const BackendLinear *linear, uint32_t channel) {
    const uint32_t *channels = linear->packed.channels;

    for (int width = GRID_BITS_MAX; channels && width >= GRID_BITS_MIN; width--) {
        size_t low = linear->run_ends[width + 1], high = linear->run_ends[width];

        while (low < high) {
            size_t middle = low + (high - low) / 2;

            if (channels[middle] == channel)
                return middle;
            if (channels[middle] < channel)
                low = middle + 1;
            else
                high = middle;
        }
    }
    assert(!channels);
    return channel;
}

/* The levels of the channel at a position, q[k]. */
static void packed_row(const BackendLinear *linear, const UnpackTileKernel *unpack, size_t position, int8_t *q) {
    const PackedWeights *weights = &linear->packed;
    const size_t block = position / INT8_TILE_OUTPUTS, lane = position % INT8_TILE_OUTPUTS;
    const uint8_t *packed = weights->packed + weights->offsets[block];

    for (size_t i = 0; i < weights->k; packed += pack_tile_bytes(weights->bits[block])) {
        _Alignas(64) int8_t tile[INT8_TILE_BYTES];

        unpack->fn(packed, weights->bits[block], 1, tile);
        for (size_t t = 0; t < INT8_TILE_INPUTS && i < weights->k; t++, i++)
            q[i] = tile[t / 4 * 64 + lane * 4 + t % 4];
    }
}

/* --- both ----------------------------------------------------------------------------------------------------------- */

static size_t max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

/* How inputs are quantized; with a shadow, its columns and room for its outliers. */
static int take_activations(CpuBackend *self, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    const LinearActivations *activations = &source->activations;
    int r;

    if (!activations->scale) /* exactly: no scale */
        return 0;
    if (!(activations->scale >= LINEAR_SCALE_MIN && activations->scale <= LINEAR_SCALE_MAX))
        return err_set(err, BACKEND_E_WEIGHTS, "tensor '%s': %g is no scale for activations: import the model again",
                       source->name, (double)activations->scale);
    linear->static_scale = activations->scale;
    if (!activations->shadow)
        return 0;
    r = shadow_new(&linear->shadow, self->backend.accounts, source, ++self->n_shadows, err);
    if (r)
        return r;
    self->shadow_inputs = max_size(self->shadow_inputs, source->k);
    self->shadow_outputs = max_size(self->shadow_outputs, source->n);
    if (!self->max_rows) /* cpu_reserve() comes after the weights */
        return 0;
    return shadow_reserve(&self->shadow, self->backend.accounts, self->max_rows, self->shadow_inputs,
                          self->shadow_outputs, err);
}

/**
 * cpu_linear_new() - a matrix in the device's own memory, on the account of the weights
 *
 * int8 rows are laid out in tiles; packed bytes stay as they are, so that they count as many bytes as in the package.
 *
 * Return: 0; BACKEND_E_WEIGHTS: another type, a shape that the products do not take, a width outside 1..8, the value
 * -128, activations that contradict themselves; BACKEND_E_MEMORY; -ENOMEM.
 */
int cpu_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    _cleanup_(cpu_linear_freep) BackendLinear *linear = NULL;
    int r;

    if (source->type != GGML_I8 || !source->scales)
        return err_set(err, BACKEND_E_WEIGHTS,
                       "tensor '%s' is not int8: import the model first (coordgenctl model import)", source->name);
    if (!source->n || !source->k || source->k > INT8_K_MAX || source->n > INT32_MAX)
        return err_set(err, BACKEND_E_WEIGHTS, "tensor '%s' is %zu x %zu, which the int8 products do not take",
                       source->name, source->n, source->k);
    linear = calloc(1, sizeof(*linear));
    if (!linear)
        return err_set(err, -ENOMEM, "out of memory");
    linear->n = source->n;
    linear->k = source->k;
    linear->k_tiles = int8_tiles_for(source->k);
    linear->n_blocks = int8_blocks_for(source->n);
    linear->rotation_block = source->rotation_block;
    r = source->packed ? fill_packed(backend, linear, source, err) : fill_int8(backend, linear, source, err);
    if (!r)
        r = take_activations((CpuBackend *)backend, linear, source, err);
    if (r)
        return r;
    *linearp = steal(&linear);
    return 0;
}

typedef struct QuantizeLoop {
    CpuBackend *self;
    const float *x;
    size_t k, stride_bytes;
    uint32_t rotation_block;
    float static_scale; /* 0: dynamic-row */
    int8_t *q;
    float *scales;
    int32_t *sums;         /* of each row; NULL when no matrix is packed */
    ShadowScratch *shadow; /* NULL: outliers are clipped */
    bool waiting_only;     /* another turn: rows whose outliers had no room */
} QuantizeLoop;

static int32_t sum_of(const int8_t *q, size_t n) {
    int32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += q[i];
    return sum;
}

static void quantize_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const QuantizeLoop *loop = arg;
    const RowOps *row_ops = loop->self->row_ops;
    float *rotated = (float *)loop->self->rotated.data + worker * loop->self->width;

    for (size_t r = begin; r < end; r++) {
        const float *x = loop->x + r * loop->k;
        int8_t *q = loop->q + r * loop->stride_bytes;
        size_t n_outliers;

        if (loop->waiting_only && !shadow_is_waiting(loop->shadow, r))
            continue;
        if (loop->rotation_block) {
            memcpy(rotated, x, loop->k * sizeof(*x));
            row_ops->hadamard(rotated, loop->k, loop->rotation_block);
            x = rotated;
        }
        if (loop->static_scale > 0) {
            loop->scales[r] = loop->static_scale;
            n_outliers = row_ops->quantize_static(x, loop->k, loop->stride_bytes, loop->static_scale, q);
            if (loop->shadow)
                shadow_take_row(loop->shadow, row_ops, r, x, loop->k, loop->static_scale, n_outliers);
        } else {
            loop->scales[r] = row_ops->quantize(x, loop->k, loop->stride_bytes, q);
        }
        if (loop->sums)
            loop->sums[r] = sum_of(q, loop->stride_bytes);
    }
}

#define LINEARS_MAX 3

/* Blocks of all matrices in one loop, so that one wait serves them. */
typedef struct ProductLoop {
    const CpuBackend *self;
    const BackendLinear *const *linears;
    size_t n;
    Int8Rows rows;
    float *const *y;
} ProductLoop;

static void product_blocks(void *arg, size_t begin, size_t end, unsigned int worker) {
    const ProductLoop *loop = arg;
    const CpuBackend *self = loop->self;
    int8_t *scratch = (int8_t *)self->expanded.data + worker * self->expanded_bytes;
    size_t first = 0;

    for (size_t i = 0; i < loop->n && first < end; i++) {
        const BackendLinear *linear = loop->linears[i];
        size_t last = first + linear->n_blocks, from = begin > first ? begin : first, to = end < last ? end : last;

        if (from < to && linear->packed.packed)
            packed_kernels_run(&self->kernels, &linear->packed, &loop->rows, from - first, to - first, loop->y[i],
                               linear->n, scratch);
        else if (from < to)
            self->kernels.product->fn(&linear->int8, &loop->rows, from - first, to - first, loop->y[i], linear->n);
        first = last;
    }
}

/* After the product: the shadows of all rows, in as many turns as their outliers need. */
static int add_shadows(CpuBackend *self, const BackendLinear *const *linears, size_t n, QuantizeLoop *quantize,
                       size_t rows, float *const *y, ErrText *err) {
    const Shadow *shadows[LINEARS_MAX];
    bool again = true;

    for (size_t i = 0; i < n; i++)
        shadows[i] = linears[i]->shadow;
    while (again) {
        int r = shadow_add(&self->shadow, self->row_ops, self->backend.pool, shadows, n, rows, y, &again, err);

        if (r)
            return r;
        if (!again)
            break;
        quantize->waiting_only = true;
        shadow_begin(&self->shadow);
        cpu_run_rows(&self->backend, quantize_rows, quantize, rows, quantize->k);
    }
    return 0;
}

int cpu_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const float *x, size_t rows,
               float *const *y, ErrText *err) {
    CpuBackend *self = (CpuBackend *)backend;
    size_t k = linears[0]->k, stride_bytes = linears[0]->k_tiles * INT8_TILE_INPUTS, n_blocks = 0;
    float *scales = (float *)((int8_t *)self->quantized.data + self->max_rows * self->width_padded);
    QuantizeLoop quantize = {
        .self = self,
        .x = x,
        .k = k,
        .stride_bytes = stride_bytes,
        .rotation_block = linears[0]->rotation_block,
        .static_scale = linears[0]->static_scale,
        .q = self->quantized.data,
        .scales = scales,
        .shadow = linears[0]->shadow ? &self->shadow : NULL,
    };
    ProductLoop product = {
        .self = self,
        .linears = linears,
        .n = n,
        .rows = { .rows = rows, .stride_bytes = stride_bytes, .x = quantize.q, .scales = scales },
        .y = y,
    };

    assert(n <= LINEARS_MAX && rows <= self->max_rows && stride_bytes <= self->width_padded);
    for (size_t i = 0; i < n; i++) {
        assert(linears[i]->k == k && linears[i]->rotation_block == quantize.rotation_block);
        assert(!memcmp(&linears[i]->static_scale, &quantize.static_scale, sizeof(float)));
        assert(!linears[i]->shadow == !quantize.shadow);
        n_blocks += linears[i]->n_blocks;
        if (linears[i]->packed.packed)
            quantize.sums = (int32_t *)(scales + self->max_rows);
    }
    product.rows.sums = quantize.sums;
    if (quantize.shadow) {
        shadow_begin_call(quantize.shadow, rows);
        shadow_begin(quantize.shadow);
    }
    cpu_run_rows(backend, quantize_rows, &quantize, rows, k);
    worker_pool_run(backend->pool, product_blocks, &product, n_blocks, 1);
    return quantize.shadow ? add_shadows(self, linears, n, &quantize, rows, y, err) : 0;
}

/* The embedding shares the head's integer rows: integers times the row's scale, rotated back. */
void cpu_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows, float factor,
               float *y) {
    const CpuBackend *self = (const CpuBackend *)backend;
    const size_t k = embedding->k;
    int8_t *q = self->quantized.data;

    for (size_t r = 0; r < rows; r++, y += k) {
        float scale;

        if (embedding->packed.packed) {
            const size_t position = position_of(embedding, tokens[r]);

            packed_row(embedding, self->kernels.unpack, position, q);
            scale = embedding->packed.scales[position];
        } else {
            int8_weights_row(&embedding->int8, tokens[r], q);
            scale = embedding->int8.scales[tokens[r]];
        }
        for (size_t i = 0; i < k; i++)
            y[i] = (float)q[i] * scale;
        if (embedding->rotation_block)
            self->row_ops->hadamard(y, k, embedding->rotation_block);
        if (factor != 1)
            self->row_ops->scale(y, factor, k);
    }
}
