// SPDX-License-Identifier: Apache-2.0
/* Loading of weight matrices into the cpu device's memory. int8 rows are laid out in the tiles of the products. Packed
 * bytes stay as they are, and take as many bytes as in the package. Both consist of independent blocks of 16 outputs:
 * blocks may come in any order and be laid out by any thread, while others are still being read. The memory of a matrix
 * begins with its integers and their sums, which are its image. CPU_IMAGE_LAYOUT must change whenever their layout
 * does. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu_private.h"
#include "backends/cpu/kernel_rates.h"
#include "base/cleanup.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "quant/format/ggml_type.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

/* State that is needed only between begin and finish. */
struct LinearFilling {
    _Atomic bool is_below_range; /* -128 was among the weights */
    uint8_t *integers;           /* out: tiles, or packed bytes */
    int32_t *sums;               /* out */
    float *scales, *bias;        /* out */
    /* packed: the same weights with scales of 1, in order, and a row of ones. */
    PackedWeights ones;
    Int8Rows ones_row;
    int8_t *ones_x;
    float one;
    int32_t sum_of_ones;
};

static void filling_free(LinearFilling *filling) {
    if (filling) {
        free(filling->ones_x);
        free(filling);
    }
}

BackendLinear *cpu_linear_free(BackendLinear *linear) {
    if (linear) {
        arena_give(&linear->memory);
        bill_settle(&linear->image_bill);
        shadow_free(linear->shadow);
        filling_free(linear->filling);
        expansion_free(linear->expansion);
        free(linear);
    }
    return NULL;
}
DEFINE_CLEANUP(BackendLinear, cpu_linear_free)

/* Allocates one block for integers and their sums, then the other arrays. With an image the first part stays there.
 * Both parts are multiples of 64 bytes. */
static int linear_memory(Backend *backend, BackendLinear *linear, const LinearSource *source, size_t integers_bytes,
                         size_t others_bytes, uint8_t **othersp, ErrText *err) {
    const bool is_elsewhere = source->image || source->streamed;
    int r = 0;

    if (is_elsewhere && source->image_bytes != integers_bytes)
        return err_set(err, BACKEND_E_IMAGE, "tensor '%s': its image has %zu bytes, not %zu", source->name,
                       source->image_bytes, integers_bytes);
    if (source->image)
        r = account_charge(backend->accounts, ACCOUNT_WEIGHTS, &linear->image_bill, integers_bytes);
    if (!r)
        r = arena_take(((CpuBackend *)backend)->weights, &linear->memory,
                       is_elsewhere ? others_bytes : integers_bytes + others_bytes);
    if (r)
        return account_refused(err, BACKEND_E_MEMORY, r, backend->accounts, ACCOUNT_WEIGHTS,
                               integers_bytes + others_bytes, "tensor '%s'", source->name);
    linear->integers_bytes = integers_bytes;
    *othersp = (uint8_t *)linear->memory.data + (is_elsewhere ? 0 : integers_bytes);
    return 0;
}

static bool is_packed(const BackendLinear *linear) {
    return linear->packed.offsets;
}

/* Sets the address of tiles or packed bytes, and of their sums. A matrix that is being filled is written there. */
void cpu_linear_at(BackendLinear *linear, void *integers) {
    LinearFilling *filling = linear->filling;
    int32_t *sums = (int32_t *)((uint8_t *)integers + linear->sums_offset_bytes);

    linear->integers = integers;
    if (is_packed(linear)) {
        linear->packed.packed = integers;
        linear->packed.sums = sums;
    } else {
        linear->int8.tiles = integers;
        linear->int8.sums = sums;
    }
    if (!filling)
        return;
    filling->ones.packed = integers;
    filling->integers = integers;
    filling->sums = sums;
}

/* A streamed matrix's integers have no place yet. */
static void place_integers(BackendLinear *linear, const LinearSource *source) {
    if (!source->streamed)
        cpu_linear_at(linear, source->image ? (void *)source->image : linear->memory.data);
}

/* --- int8 --------------------------------------------------------------------------------------------------------- */

/* Returns the bytes of the integers with their sums; the sums start at *sums_offsetp. */
static size_t int8_bytes(size_t n, size_t k, size_t *sums_offsetp) {
    const size_t n_blocks = int8_blocks_for(n);

    *sums_offsetp = n_blocks * int8_tiles_for(k) * INT8_TILE_BYTES;
    return *sums_offsetp + n_blocks * INT8_TILE_OUTPUTS * sizeof(int32_t);
}

/* Lays out tiles, then sums, scales and bias, each [n_blocks * 16]. */
static int begin_int8(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    LinearFilling *filling = linear->filling;
    const size_t n_padded = linear->n_blocks * INT8_TILE_OUTPUTS,
                 integers_bytes = int8_bytes(linear->n, linear->k, &linear->sums_offset_bytes);
    uint8_t *others = NULL;
    int r;

    r = linear_memory(backend, linear, source, integers_bytes, 2 * n_padded * sizeof(float), &others, err);
    if (r)
        return r;
    filling->scales = (float *)others;
    filling->bias = filling->scales + n_padded;
    linear->int8 = (Int8Weights){
        .n = linear->n,
        .k = linear->k,
        .k_tiles = linear->k_tiles,
        .n_blocks = linear->n_blocks,
        .scales = filling->scales,
        .bias = source->bias ? filling->bias : NULL,
    };
    place_integers(linear, source);
    return 0;
}

static void finish_int8(const BackendLinear *linear, const LinearSource *source) {
    memcpy(linear->filling->scales, source->scales, source->n * sizeof(float));
    if (source->bias)
        memcpy(linear->filling->bias, source->bias, source->n * sizeof(float));
}

/* --- packed ------------------------------------------------------------------------------------------------------- */

/* Places an array in a block of memory, aligned to 64. */
static size_t place(size_t *at, size_t len_bytes) {
    size_t here = *at;

    *at += (len_bytes + 63) / 64 * 64;
    return here;
}

static size_t packed_bytes(const PackPlan *plan, size_t *sums_offsetp) {
    size_t len_bytes = 0;

    place(&len_bytes, plan->offsets[plan->n_blocks]);
    *sums_offsetp = place(&len_bytes, plan->n_blocks * INT8_TILE_OUTPUTS * sizeof(int32_t));
    return len_bytes;
}

/* Lays out packed bytes and sums, then offsets, scales, bias, channels and widths. */
static int place_packed(Backend *backend, BackendLinear *linear, const LinearSource *source, const PackPlan *plan,
                        ErrText *err) {
    LinearFilling *filling = linear->filling;
    const size_t n_padded = plan->n_blocks * INT8_TILE_OUTPUTS, n_arrays = n_padded * sizeof(float);
    size_t others_bytes = 0;
    const size_t integers_bytes = packed_bytes(plan, &linear->sums_offset_bytes),
                 offsets = place(&others_bytes, (plan->n_blocks + 1) * sizeof(*plan->offsets)),
                 scales = place(&others_bytes, n_arrays), bias = place(&others_bytes, n_arrays),
                 channels = place(&others_bytes, plan->in_order ? 0 : n_padded * sizeof(*plan->channels)),
                 bits = place(&others_bytes, plan->n_blocks);
    uint8_t *others = NULL;
    int r;

    r = linear_memory(backend, linear, source, integers_bytes, others_bytes, &others, err);
    if (r)
        return r;
    memcpy(others + offsets, plan->offsets, (plan->n_blocks + 1) * sizeof(*plan->offsets));
    memcpy(others + bits, plan->bits, plan->n_blocks);
    if (!plan->in_order)
        memcpy(others + channels, plan->channels, n_padded * sizeof(*plan->channels));
    for (size_t i = 0; i < plan->n; i++)
        linear->run_ends[source->bits[i]]++;
    for (int width = GRID_BITS_MAX - 1; width > 0; width--)
        linear->run_ends[width] += linear->run_ends[width + 1];
    filling->scales = (float *)(others + scales);
    filling->bias = (float *)(others + bias);
    linear->packed = (PackedWeights){
        .n = linear->n,
        .k = linear->k,
        .k_tiles = linear->k_tiles,
        .n_blocks = linear->n_blocks,
        .offsets = (const uint64_t *)(others + offsets),
        .bits = others + bits,
        .grid = plan->grid,
        .channels = plan->in_order ? NULL : (const uint32_t *)(others + channels),
        .scales = filling->scales,
        .bias = source->bias ? filling->bias : NULL,
    };
    place_integers(linear, source);
    return 0;
}

/* Prepares the row of ones whose products are the sums. The arrays of scales and bias are lent to it until the matrix
 * is finished. */
static int prepare_ones(BackendLinear *linear, ErrText *err) {
    LinearFilling *filling = linear->filling;
    const size_t n_padded = linear->n_blocks * INT8_TILE_OUTPUTS, stride_bytes = linear->k_tiles * INT8_TILE_INPUTS;

    filling->ones_x = aligned_alloc(64, stride_bytes);
    if (!filling->ones_x)
        return err_no_memory(err);
    memset(filling->ones_x, 1, stride_bytes);
    for (size_t p = 0; p < n_padded; p++)
        filling->scales[p] = 1;
    filling->one = 1;
    filling->sum_of_ones = (int32_t)stride_bytes;
    filling->ones_row = (Int8Rows){
        .rows = 1,
        .tile_rows = 1,
        .stride_bytes = stride_bytes,
        .x = filling->ones_x,
        .scales = &filling->one,
        .sums = &filling->sum_of_ones,
    };
    filling->ones = linear->packed;
    filling->ones.n = n_padded;
    filling->ones.channels = NULL;
    filling->ones.bias = NULL;
    return 0;
}

/* Puts those codings of the matrix into use that are new to the device. */
static void take_codings(CpuBackend *self, const PackPlan *plan) {
    for (size_t block = 0; block < plan->n_blocks; block++) {
        const int bits = plan->bits[block], coding = packed_coding(plan->grid, bits);

        if (!self->has_coding[coding])
            packed_kernels_take(&self->kernels, plan->grid, bits,
                                kernel_rates_few_rows(&self->kernels, plan->grid, bits, self->backend.accounts));
        self->has_coding[coding] = true;
    }
}

static int plan_packed(PackPlan *plan, const LinearSource *source, ErrText *err) {
    int r;

    for (size_t i = 0; i < source->n; i++)
        if (!source->bits || source->bits[i] < GRID_BITS_MIN || source->bits[i] > GRID_BITS_MAX)
            return err_set(err, BACKEND_E_WEIGHTS,
                           "tensor '%s': channel %zu is %d bits wide, packed weights have %d..%d: import the model "
                           "again",
                           source->name, i, source->bits ? source->bits[i] : 0, GRID_BITS_MIN, GRID_BITS_MAX);
    r = pack_plan_init(plan, source->grid, source->bits, source->n, source->k);
    if (r)
        return err_set(err, r, r == -ENOMEM ? "out of memory" : "tensor '%s': its widths have no layout", source->name);
    return 0;
}

static int begin_packed(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    _cleanup_(pack_plan_deinit) PackPlan plan = { 0 };
    int r;

    r = plan_packed(&plan, source, err);
    if (r)
        return r;
    take_codings((CpuBackend *)backend, &plan);
    r = place_packed(backend, linear, source, &plan, err);
    return r || source->image ? r : prepare_ones(linear, err);
}

/* Begins a matrix whose int8 tiles are made of packed bytes. */
static int begin_expanded(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    _cleanup_(pack_plan_deinit) PackPlan plan = { 0 };
    int r;

    r = plan_packed(&plan, source, err);
    if (r)
        return r;
    r = expansion_new(&linear->expansion, backend->accounts, &plan);
    if (r)
        return err_set(err, r, "no memory for where the weights of tensor '%s' belong", source->name);
    return begin_int8(backend, linear, source, err);
}

/* Returns whether code 0 of 8 bits, -128, is among the weights of a block (the padding may hold it). */
static bool holds_code_zero(const PackedKernels *kernels, const PackedWeights *weights, size_t block) {
    const size_t n_left = weights->n - block * INT8_TILE_OUTPUTS;
    const uint8_t *packed = weights->packed + weights->offsets[block];

    for (size_t t = 0; t < weights->k_tiles; t++, packed += INT8_TILE_BYTES) {
        const size_t k_left = weights->k - t * INT8_TILE_INPUTS;
        _Alignas(64) int8_t tile[INT8_TILE_BYTES];
        int smallest = 0;

        kernels->unpack->fn(packed, weights->grid, GRID_BITS_MAX, 1, tile);
        for (size_t i = 0; i < INT8_TILE_BYTES; i++)
            smallest = MIN(tile[i], smallest);
        for (size_t i = 0; smallest < -127 && i < INT8_TILE_BYTES; i++)
            if (tile[i] < -127 && i / 64 * 4 + i % 4 < k_left && i % 64 / 4 < n_left)
                return true;
    }
    return false;
}

/* A channel's sum is its product with a row of ones: at most 128 x 131072 = 2^24, exact in float32. */
static void fill_packed(const PackedKernels *kernels, BackendLinear *linear, size_t block_begin, size_t block_end,
                        const uint8_t *bytes) {
    LinearFilling *filling = linear->filling;
    const uint64_t *offsets = linear->packed.offsets;

    for (size_t block = block_begin; block < block_end; block++) {
        memcpy(filling->integers + offsets[block], bytes + offsets[block] - offsets[block_begin],
               offsets[block + 1] - offsets[block]);
        kernels->few->fn(&filling->ones, &filling->ones_row, block, block + 1, filling->bias, filling->ones.n);
        for (size_t p = block * INT8_TILE_OUTPUTS; p < (block + 1) * INT8_TILE_OUTPUTS; p++)
            filling->sums[p] = (int32_t)filling->bias[p];
        if (linear->packed.bits[block] == GRID_BITS_MAX && holds_code_zero(kernels, &linear->packed, block))
            filling->is_below_range = true;
    }
}

void cpu_linears_begun(Backend *backend) {
    arena_populate(((CpuBackend *)backend)->weights);
}

static void finish_packed(const BackendLinear *linear, const LinearSource *source) {
    const LinearFilling *filling = linear->filling;
    const size_t n_padded = linear->n_blocks * INT8_TILE_OUTPUTS;

    for (size_t p = 0; p < n_padded; p++) {
        const size_t channel = linear->packed.channels && p < linear->n ? linear->packed.channels[p] : p;

        filling->scales[p] = p < linear->n ? source->scales[channel] : 0;
        filling->bias[p] = p < linear->n && source->bias ? source->bias[channel] : 0;
    }
}

/* --- both --------------------------------------------------------------------------------------------------------- */

/* Sets how inputs are quantized. A shadow gets room for its hot columns and its outliers. */
static int begin_activations(CpuBackend *self, BackendLinear *linear, const LinearSource *source, ErrText *err) {
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
    self->shadow_inputs = MAX(self->shadow_inputs, source->k);
    self->shadow_outputs = MAX(self->shadow_outputs, source->n);
    if (!self->max_rows) /* cpu_reserve() comes after the weights */
        return 0;
    return shadow_reserve(&self->shadow, self->backend.accounts, self->max_rows, self->shadow_inputs,
                          self->shadow_outputs, err);
}

/**
 * cpu_linear_begin() - allocate all memory of a matrix on the account of the weights, and place its parts
 *
 * Return: 0; BACKEND_E_WEIGHTS: another type, a shape that the products do not take, a width outside 1..8, activations
 * that contradict themselves; BACKEND_E_IMAGE; BACKEND_E_MEMORY; -ENOMEM.
 */
int cpu_linear_begin(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    _cleanup_(cpu_linear_freep) BackendLinear *linear = NULL;
    int r;

    if (source->type != GGML_I8 || !source->scales)
        return err_set(err, BACKEND_E_WEIGHTS,
                       "tensor '%s' is not int8: import the model first (coordgenctl model import)", source->name);
    if (!source->n || !source->k || source->k > INT8_K_MAX || source->n > INT32_MAX)
        return err_set(err, BACKEND_E_WEIGHTS, "tensor '%s' is %zu x %zu, which the int8 products do not take",
                       source->name, source->n, source->k);
    linear = calloc(1, sizeof(*linear));
    if (linear)
        linear->filling = calloc(1, sizeof(*linear->filling));
    if (!linear || !linear->filling)
        return err_no_memory(err);
    linear->n = source->n;
    linear->k = source->k;
    linear->k_tiles = int8_tiles_for(source->k);
    linear->n_blocks = int8_blocks_for(source->n);
    linear->rotation_block = source->rotation_block;
    r = !source->packed && !source->bits ? begin_int8(backend, linear, source, err)
        : source->expanded               ? begin_expanded(backend, linear, source, err)
                                         : begin_packed(backend, linear, source, err);
    if (!r)
        r = begin_activations((CpuBackend *)backend, linear, source, err);
    if (r)
        return r;
    ((CpuBackend *)backend)->has_packed |= is_packed(linear);
    *linearp = steal(&linear);
    return 0;
}

/**
 * cpu_linear_fill() - lay out the blocks [block_begin, block_end)
 * @bytes: bytes of these blocks only, as in the package: rows of int8, or packed bytes
 *
 * Thread: any number at a time, on different blocks.
 */
void cpu_linear_fill(const Backend *backend, BackendLinear *linear, size_t block_begin, size_t block_end,
                     const void *bytes) {
    LinearFilling *filling = linear->filling;

    assert(filling && block_begin <= block_end && block_end <= linear->n_blocks);
    if (is_packed(linear))
        fill_packed(&((const CpuBackend *)backend)->kernels, linear, block_begin, block_end, bytes);
    else if (!cpu_linear_expand(backend, linear, block_begin, block_end, bytes, filling->integers))
        filling->is_below_range = true;
}

/**
 * cpu_linear_finish() - complete a matrix after all blocks were filled
 *
 * The function allocates nothing, so that a load that has begun does not fail for lack of memory.
 * Return: 0; BACKEND_E_WEIGHTS: the value -128, hot columns that cannot be read.
 */
int cpu_linear_finish(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    if (linear->filling->is_below_range)
        return err_set(err, BACKEND_E_WEIGHTS,
                       "tensor '%s' holds the value -128; int8 weights are -127..127: import the model again",
                       source->name);
    if (is_packed(linear))
        finish_packed(linear, source);
    else
        finish_int8(linear, source);
    filling_free(linear->filling);
    linear->filling = NULL;
    return linear->shadow ? shadow_fill(linear->shadow, source, err) : 0;
}

typedef struct FillLoop {
    const Backend *backend;
    BackendLinear *linear;
    const uint8_t *bytes;
} FillLoop;

static void fill_blocks(void *arg, size_t begin, size_t end, unsigned int worker) {
    const FillLoop *loop = arg;
    const BackendLinear *linear = loop->linear;
    const size_t offset_bytes = is_packed(linear)   ? linear->packed.offsets[begin]
                                : linear->expansion ? expansion_offset(linear->expansion, begin)
                                                    : begin * INT8_TILE_OUTPUTS * linear->k;

    cpu_linear_fill(loop->backend, loop->linear, begin, end, loop->bytes + offset_bytes);
}

int cpu_linear_image_bytes(const LinearSource *source, size_t *len_bytesp, ErrText *err) {
    _cleanup_(pack_plan_deinit) PackPlan plan = { 0 };
    size_t sums_offset_bytes;
    int r = 0;

    if (!source->bits || source->expanded) {
        *len_bytesp = int8_bytes(source->n, source->k, &sums_offset_bytes);
        return 0;
    }
    r = plan_packed(&plan, source, err);
    if (!r)
        *len_bytesp = packed_bytes(&plan, &sums_offset_bytes);
    return r;
}

const void *cpu_linear_image(const BackendLinear *linear, size_t *len_bytesp) {
    assert(!linear->filling);
    *len_bytesp = linear->integers_bytes;
    return linear->integers;
}

/* Makes a matrix whose weights are in memory as a whole. Returns as begin and finish. */
int cpu_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    _cleanup_(cpu_linear_freep) BackendLinear *linear = NULL;
    FillLoop loop = { .backend = backend, .bytes = source->packed ? source->packed : source->data };
    int r;

    r = cpu_linear_begin(backend, &linear, source, err);
    if (r)
        return r;
    loop.linear = linear;
    worker_pool_run(backend->pool, fill_blocks, &loop, linear->n_blocks, 1);
    r = cpu_linear_finish(backend, linear, source, err);
    if (r)
        return r;
    *linearp = steal(&linear);
    return 0;
}
