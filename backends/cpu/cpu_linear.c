// SPDX-License-Identifier: Apache-2.0
/* Products and embedding rows of the cpu device's weight matrices, which cpu_weights.c lays out. A packed matrix gives
 * the bits of the int8 matrix that it unpacks to. */
#define _GNU_SOURCE
#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/cpu_private.h"
#include "base/memory/page_size.h"
#include "base/min_max.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

/* Returns the position of a channel. */
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

/* Unpacks the levels of the channel at a position, q[k]. */
static void packed_row(const BackendLinear *linear, const UnpackTileKernel *unpack, size_t position, int8_t *q) {
    const PackedWeights *weights = &linear->packed;
    const size_t block = position / INT8_TILE_OUTPUTS, lane = position % INT8_TILE_OUTPUTS;
    const uint8_t *packed = weights->packed + weights->offsets[block];

    for (size_t i = 0; i < weights->k; packed += pack_tile_bytes(weights->bits[block])) {
        _Alignas(64) int8_t tile[INT8_TILE_BYTES];

        unpack->fn(packed, weights->grid, weights->bits[block], 1, tile);
        for (size_t t = 0; t < INT8_TILE_INPUTS && i < weights->k; t++, i++)
            q[i] = tile[t / 4 * 64 + lane * 4 + t % 4];
    }
}

typedef struct QuantizeLoop {
    CpuBackend *self;
    const LinearInput *in;
    size_t k;
    uint32_t rotation_block;
    float static_scale;    /* 0: dynamic-row */
    Int8Rows rows;         /* results; shifted is NULL if the kernel takes them as they are, sums is NULL if unused */
    ShadowScratch *shadow; /* NULL: outliers are clipped */
    bool waiting_only;     /* a further turn: only rows whose outliers had no room */
} QuantizeLoop;

/* Returns row r of the stream after adding x to it; a further turn finds the sum done. */
static const float *stream_row(const QuantizeLoop *loop, size_t r) {
    float *stream = loop->in->stream + r * loop->k;

    if (!loop->waiting_only)
        loop->self->row_ops->add(stream, loop->in->x + r * loop->k, loop->k);
    return stream;
}

/* Returns row r as the product takes it, in `own` unless it is the row in memory itself. Sets its greatest |value| too
 * if its scale depends on that. */
static const float *input_row(const QuantizeLoop *loop, size_t r, float *own, float *amaxp) {
    const LinearInput *in = loop->in;
    const RowOps *row_ops = loop->self->row_ops;
    const float *x = in->stream ? stream_row(loop, r) : in->x + r * loop->k;

    if (in->norm) {
        if (in->norm_bias)
            row_ops->layer_norm(x, in->norm, in->norm_bias, in->eps, loop->k, own);
        else
            row_ops->rms_norm(x, in->norm, in->eps, loop->k, own);
        x = own;
    }
    if (loop->rotation_block) {
        *amaxp = row_ops->hadamard(x, loop->k, loop->rotation_block, own);
        x = own;
    } else if (!(loop->static_scale > 0)) {
        *amaxp = row_ops->amax(x, loop->k);
    }
    return x;
}

/* Quantizes row r to int8. Int8Rows is const for the products that read it; this function writes it. */
static void quantize_row(const QuantizeLoop *loop, size_t r, float *own) {
    const RowOps *row_ops = loop->self->row_ops;
    const Int8Rows *rows = &loop->rows;
    float amax = 0;
    const float *x = input_row(loop, r, own, &amax);
    const size_t at = int8_rows_piece(rows, r, 0), piece_bytes = rows->tile_rows * INT8_TILE_INPUTS;
    int8_t *q = (int8_t *)rows->x + at;
    float *scale = (float *)rows->scales + r;

    if (loop->static_scale > 0) {
        const size_t n_outliers = row_ops->quantize_static(x, loop->k, piece_bytes, loop->static_scale, q);

        *scale = loop->static_scale;
        if (loop->shadow)
            shadow_take_row(loop->shadow, row_ops, r, x, loop->k, loop->static_scale, n_outliers);
    } else {
        *scale = row_ops->quantize(x, loop->k, amax, piece_bytes, q);
    }
    assert(rows->tile_rows == 1 || (!rows->shifted && !rows->sums));
    if (rows->shifted)
        row_ops->shift(q, rows->stride_bytes, (uint8_t *)rows->shifted + at);
    if (rows->sums)
        ((int32_t *)rows->sums)[r] = row_ops->sum(q, rows->stride_bytes);
}

static void quantize_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const QuantizeLoop *loop = arg;
    float *own = (float *)loop->self->rotated.data + worker * loop->self->width;

    for (size_t r = begin; r < end; r++)
        if (!loop->waiting_only || shadow_is_waiting(loop->shadow, r))
            quantize_row(loop, r, own);
}

#define LINEARS_MAX CPU_LINEARS_MAX
/* Number of rows above which kernels take panels of 4 blocks if a piece of work has 4. */
#define STREAM_ROWS 4
#define PANEL_BLOCKS 4
/* With fewer rows each piece is at least this fraction of the weights: memory is read fastest in long streams. */
#define STREAM_PIECES 16

/* Blocks of all matrices in one loop, so that one wait serves them. A gated loop takes the same blocks of both matrices
 * together. */
typedef struct ProductLoop {
    const CpuBackend *self;
    const BackendLinear *const *linears;
    size_t n;
    const Int8Rows *rows;
    const LinearOutput *out;
} ProductLoop;

static void *scratch_of(const CpuBackend *self, unsigned int worker) {
    return (uint8_t *)self->scratch.data + worker * self->scratch_bytes;
}

static void run_blocks(const CpuBackend *self, const BackendLinear *linear, const Int8Rows *rows, size_t begin,
                       size_t end, float *y, void *scratch) {
    if (linear->packed.packed)
        packed_kernels_run(&self->kernels, &linear->packed, rows, begin, end, y, linear->n, scratch);
    else
        self->kernels.product->fn(&linear->int8, rows, begin, end, y, linear->n, scratch);
}

static void product_blocks(void *arg, size_t begin, size_t end, unsigned int worker) {
    const ProductLoop *loop = arg;
    size_t first = 0;

    for (size_t i = 0; i < loop->n && first < end; i++) {
        const BackendLinear *linear = loop->linears[i];
        size_t last = first + linear->n_blocks, from = MAX(begin, first), to = MIN(end, last);

        if (from < to)
            run_blocks(loop->self, linear, loop->rows, from - first, to - first, loop->out->y[i],
                       scratch_of(loop->self, worker));
        first = last;
    }
}

/* Returns whether the same blocks of two matrices hold the same outputs, without any other addition to them. */
static bool gates_by_blocks(const BackendLinear *const *linears) {
    return !linears[0]->shadow && !linears[0]->packed.channels && !linears[1]->packed.channels;
}

/* Gates outputs while they are in the cache. A kernel with a gated form gates before it stores. */
static void gated_blocks(void *arg, size_t begin, size_t end, unsigned int worker) {
    const ProductLoop *loop = arg;
    const CpuBackend *self = loop->self;
    const BackendLinear *gate = loop->linears[0], *up = loop->linears[1];
    const bool gelu = loop->out->gate == LINEAR_GATE_GELU;
    const Int8Gate activation = gelu ? INT8_GATE_GELU : INT8_GATE_SILU;
    const size_t first = begin * INT8_TILE_OUTPUTS, last = end * INT8_TILE_OUTPUTS, n = MIN(last, gate->n) - first;
    float *y = loop->out->y[0], *y_up = loop->out->y[1];
    void *scratch = scratch_of(self, worker);

    if (self->kernels.product->gated && !gate->packed.packed && !up->packed.packed) {
        self->kernels.product->gated(&gate->int8, &up->int8, loop->rows, activation, begin, end, y, gate->n, scratch);
        return;
    }
    if (self->kernels.product->gated && gate->packed.packed && up->packed.packed && loop->rows->tile_rows > 1) {
        packed_kernels_gated(&self->kernels, &gate->packed, &up->packed, loop->rows, activation, begin, end, y, gate->n,
                             scratch);
        return;
    }
    run_blocks(self, gate, loop->rows, begin, end, y, scratch);
    run_blocks(self, up, loop->rows, begin, end, y_up, scratch);
    for (size_t at = first, r = 0; r < loop->rows->rows; r++, at += gate->n)
        (gelu ? self->row_ops->gelu_mul : self->row_ops->silu_mul)(y + at, y_up + at, n, y + at);
}

/* Splits a product into pieces: few rows get long streams through memory, more rows get panels that stay in the
 * cache. */
static void run_products(ProductLoop *loop) {
    const bool gated = loop->out->gate && gates_by_blocks(loop->linears);
    size_t n_blocks = 0;

    for (size_t i = 0; i < (gated ? 1 : loop->n); i++)
        n_blocks += loop->linears[i]->n_blocks;
    worker_pool_run(loop->self->backend.pool, gated ? gated_blocks : product_blocks, loop, n_blocks,
                    loop->rows->rows > STREAM_ROWS ? PANEL_BLOCKS : n_blocks / STREAM_PIECES + 1);
}

/* Adds the shadows of all rows after the product, in as many turns as their outliers need. */
static int add_shadows(CpuBackend *self, const Shadow *const *shadows, size_t n, QuantizeLoop *quantize, size_t rows,
                       float *const *y, ErrText *err) {
    bool again = true;

    while (again) {
        int r = shadow_add(&self->shadow, self->row_ops, self->backend.pool, shadows, n, rows, y, &again, err);

        if (r)
            return r;
        if (!again)
            break;
        quantize->waiting_only = true;
        shadow_begin(&self->shadow);
        cpu_run_rows(&self->backend, quantize_rows, quantize, rows, quantize->k);
        shadow_sort(&self->shadow, shadows, n);
    }
    return 0;
}

/* Returns a call's rows in the device's scratch, in the layout of the kernel that takes them. */
static Int8Rows rows_in_scratch(const CpuBackend *self, const BackendLinear *const *linears, size_t n, size_t rows) {
    const Int8ProductKernel *kernel = self->kernels.product;
    uint8_t *bytes = self->quantized.data, *shifted = kernel->shifted ? bytes + self->rows_bytes : NULL;
    const float *scales = (float *)(bytes + (shifted ? 2 : 1) * self->rows_bytes);
    Int8Rows in = {
        .rows = rows,
        .tile_rows = int8_tile_rows(kernel, rows),
        .stride_bytes = linears[0]->k_tiles * INT8_TILE_INPUTS,
        .x = (const int8_t *)bytes,
        .scales = scales,
        .shifted = shifted,
    };

    for (size_t i = 0; i < n; i++)
        if (linears[i]->packed.packed)
            in.tile_rows = packed_kernels_tile_rows(&self->kernels, rows);
    for (size_t i = 0; i < n && in.tile_rows == 1; i++)
        if (linears[i]->packed.packed)
            in.sums = (const int32_t *)(scales + self->max_rows);
    assert(rows <= self->max_rows && in.stride_bytes <= self->width_padded);
    return in;
}

int cpu_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in, size_t rows,
               const LinearOutput *out, ErrText *err) {
    CpuBackend *self = (CpuBackend *)backend;
    size_t k = linears[0]->k;
    const Shadow *shadows[LINEARS_MAX];
    QuantizeLoop quantize = {
        .self = self,
        .in = in,
        .k = k,
        .rotation_block = linears[0]->rotation_block,
        .static_scale = linears[0]->static_scale,
        .rows = rows_in_scratch(self, linears, n, rows),
        .shadow = linears[0]->shadow ? &self->shadow : NULL,
    };
    ProductLoop product = { .self = self, .linears = linears, .n = n, .rows = &quantize.rows, .out = out };
    int r = 0;

    assert(in->norm || (!in->stream && !in->norm_bias));
    assert(n <= LINEARS_MAX && (!out->gate || (n == 2 && linears[0]->n == linears[1]->n)));
    for (size_t i = 0; i < n; i++) {
        assert(linears[i]->k == k && linears[i]->rotation_block == quantize.rotation_block);
        assert(!memcmp(&linears[i]->static_scale, &quantize.static_scale, sizeof(float)));
        assert(!linears[i]->shadow == !quantize.shadow);
        shadows[i] = linears[i]->shadow;
    }
    if (quantize.shadow) {
        shadow_begin_call(quantize.shadow, rows);
        shadow_begin(quantize.shadow);
    }
    cpu_run_rows(backend, quantize_rows, &quantize, rows, k);
    if (quantize.shadow)
        shadow_sort(quantize.shadow, shadows, n);
    run_products(&product);
    if (quantize.shadow)
        r = add_shadows(self, shadows, n, &quantize, rows, out->y, err);
    if (!r && out->gate && !gates_by_blocks(linears))
        cpu_gated(backend, out->y[0], out->y[1], rows, linears[0]->n, out->gate == LINEAR_GATE_GELU);
    return r;
}

/* --- products of a static shape ----------------------------------------------------------------------------------- */

static QuantizeLoop static_quantize(const CpuStaticCall *call, const LinearInput *in) {
    const BackendLinear *linear = call->linears[0];

    return (QuantizeLoop){
        .self = call->self,
        .in = in,
        .k = linear->k,
        .rotation_block = linear->rotation_block,
        .static_scale = linear->static_scale,
        .rows = call->rows_in,
        .shadow = linear->shadow ? &call->self->shadow : NULL,
    };
}

/* Collects the shadows of the call's matrices; either all matrices have one or none. */
static void static_shadows(const CpuStaticCall *call, const Shadow *shadows[LINEARS_MAX]) {
    for (size_t i = 0; i < call->n; i++)
        shadows[i] = call->linears[i]->shadow;
}

/* Sets the rows after those of the call to zero. */
static void pad_rows(const Int8Rows *rows, size_t first, float scale) {
    for (size_t r = first; r < rows->rows; r++) {
        for (size_t piece = 0; piece < rows->stride_bytes / INT8_TILE_INPUTS; piece++) {
            const size_t at = int8_rows_piece(rows, r, piece);

            memset((int8_t *)rows->x + at, 0, INT8_TILE_INPUTS);
            if (rows->shifted)
                memset((uint8_t *)rows->shifted + at, 0x80, INT8_TILE_INPUTS);
        }
        ((float *)rows->scales)[r] = scale;
        if (rows->sums)
            ((int32_t *)rows->sums)[r] = 0;
    }
}

void cpu_static_begin(CpuStaticCall *call) {
    const LinearInput in = { .x = call->x };
    const Shadow *shadows[LINEARS_MAX];
    QuantizeLoop quantize;

    assert(call->n && call->n <= LINEARS_MAX && call->rows <= call->rows_of_shape);
    call->rows_in = rows_in_scratch(call->self, call->linears, call->n, call->rows_of_shape);
    quantize = static_quantize(call, &in);
    assert(quantize.static_scale > 0);
    if (quantize.shadow) {
        shadow_begin_call(quantize.shadow, call->rows);
        shadow_begin(quantize.shadow);
    }
    cpu_run_rows(&call->self->backend, quantize_rows, &quantize, call->rows, quantize.k);
    if (quantize.shadow) {
        static_shadows(call, shadows);
        shadow_sort(quantize.shadow, shadows, call->n);
    }
    pad_rows(&call->rows_in, call->rows, quantize.static_scale);
}

/* Returns rows [first, first + n), which start at a group of the layout. */
static Int8Rows rows_part(const Int8Rows *rows, size_t first, size_t n) {
    const size_t at = int8_rows_piece(rows, first, 0);
    Int8Rows part = *rows;

    assert(first % rows->tile_rows == 0);
    part.rows = n;
    part.x += at;
    part.scales += first;
    part.sums = rows->sums ? rows->sums + first : NULL;
    part.shifted = rows->shifted ? rows->shifted + at : NULL;
    return part;
}

void cpu_static_run(void *arg) {
    const CpuStaticCall *call = arg;
    const bool is_padded = call->rows < call->rows_of_shape;

    for (size_t i = 0; i < call->n; i++) {
        const BackendLinear *linear = call->linears[i];
        float *y = is_padded ? call->padded : call->y[i];

        for (size_t first = 0; first < call->rows_of_shape; first += call->rows_at_once) {
            const size_t left = call->rows_of_shape - first;
            const Int8Rows part = rows_part(&call->rows_in, first, MIN(left, call->rows_at_once));

            run_blocks(call->self, linear, &part, 0, linear->n_blocks, y + first * linear->n,
                       scratch_of(call->self, 0));
        }
        if (is_padded)
            memcpy(call->y[i], y, call->rows * linear->n * sizeof(*y));
    }
}

void cpu_static_run_split(CpuStaticCall *call) {
    ProductLoop product = { .self = call->self,
                            .linears = call->linears,
                            .n = call->n,
                            .rows = &call->rows_in,
                            .out = &(LinearOutput){ .y = call->y } };

    assert(call->rows == call->rows_of_shape);
    run_products(&product);
}

/* Adds the shadows and completes the call. Returns as cpu_linear(). */
int cpu_static_end(CpuStaticCall *call, ErrText *err) {
    const LinearInput in = { .x = call->x };
    QuantizeLoop quantize = static_quantize(call, &in);
    const Shadow *shadows[LINEARS_MAX];

    if (!quantize.shadow)
        return 0;
    static_shadows(call, shadows);
    return add_shadows(call->self, shadows, call->n, &quantize, call->rows, call->y, err);
}

/* --- outputs piece by piece --------------------------------------------------------------------------------------- */

#define PIECE_BLOCKS (LINEAR_PIECE / INT8_TILE_OUTPUTS)

typedef struct PieceLoop {
    const CpuBackend *self;
    const BackendLinear *linear;
    size_t n_outputs;
    const Int8Rows *rows;
    float *scratch;
    LinearPieceFn *take;
    void *arg;
} PieceLoop;

/* A matrix with a shadow has complete outputs only after it; outputs of channels out of order are not contiguous. */
bool cpu_has_pieces(const BackendLinear *linear) {
    return !linear->shadow && !linear->packed.channels;
}

/* Returns weights of n outputs from a block on, as a matrix of their own. */
static Int8Weights int8_part(const Int8Weights *weights, size_t block, size_t n) {
    const size_t first = block * INT8_TILE_OUTPUTS;
    Int8Weights part = *weights;

    part.n = n;
    part.n_blocks = int8_blocks_for(n);
    part.tiles += block * weights->k_tiles * INT8_TILE_BYTES;
    part.sums += first;
    part.scales += first;
    part.bias = weights->bias ? weights->bias + first : NULL;
    return part;
}

static PackedWeights packed_part(const PackedWeights *weights, size_t block, size_t n) {
    const size_t first = block * INT8_TILE_OUTPUTS;
    PackedWeights part = *weights;

    part.n = n;
    part.n_blocks = int8_blocks_for(n);
    part.offsets += block;
    part.bits += block;
    part.sums += first;
    part.scales += first;
    part.bias = weights->bias ? weights->bias + first : NULL;
    return part;
}

static void run_piece(const PieceLoop *loop, size_t block, size_t end, float *y, unsigned int worker) {
    const CpuBackend *self = loop->self;
    const BackendLinear *linear = loop->linear;
    const size_t first = block * INT8_TILE_OUTPUTS, last = end * INT8_TILE_OUTPUTS,
                 n = MIN(last, loop->n_outputs) - first;
    void *scratch = scratch_of(self, worker);

    if (linear->packed.packed) {
        const PackedWeights part = packed_part(&linear->packed, block, n);

        packed_kernels_run(&self->kernels, &part, loop->rows, 0, part.n_blocks, y, LINEAR_PIECE, scratch);
    } else {
        const Int8Weights part = int8_part(&linear->int8, block, n);

        self->kernels.product->fn(&part, loop->rows, 0, part.n_blocks, y, LINEAR_PIECE, scratch);
    }
    loop->take(loop->arg, first, n, y, worker);
}

static void run_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    const PieceLoop *loop = arg;
    float *y = loop->scratch + worker * loop->rows->rows * LINEAR_PIECE;

    for (size_t block = begin, last; block < end; block = last) {
        last = end - block < PIECE_BLOCKS ? end : block + PIECE_BLOCKS;
        run_piece(loop, block, last, y, worker);
    }
}

int cpu_linear_pieces(Backend *backend, const BackendLinear *linear, const float *x, size_t rows, size_t n_outputs,
                      float *scratch, LinearPieceFn *take, void *arg, ErrText *err) {
    CpuBackend *self = (CpuBackend *)backend;
    const LinearInput in = { .x = x };
    QuantizeLoop quantize = {
        .self = self,
        .in = &in,
        .k = linear->k,
        .rotation_block = linear->rotation_block,
        .static_scale = linear->static_scale,
        .rows = rows_in_scratch(self, &linear, 1, rows),
    };
    PieceLoop loop = { self, linear, n_outputs, &quantize.rows, scratch, take, arg };

    assert(cpu_has_pieces(linear) && n_outputs <= linear->n);
    cpu_run_rows(backend, quantize_rows, &quantize, rows, linear->k);
    worker_pool_run(backend->pool, run_pieces, &loop, int8_blocks_for(n_outputs), PIECE_BLOCKS);
    return 0;
}

/* --- embedding rows ----------------------------------------------------------------------------------------------- */

typedef struct EmbedLoop {
    const CpuBackend *self;
    const BackendLinear *embedding;
    const uint32_t *tokens;
    float factor;
    float *y;
} EmbedLoop;

/* Reads the integers of a token's row; returns their scale. */
static float embedding_row(const EmbedLoop *loop, uint32_t token, int8_t *q) {
    const BackendLinear *embedding = loop->embedding;
    size_t position;

    if (!embedding->packed.packed) {
        int8_weights_row(&embedding->int8, token, q);
        return embedding->int8.scales[token];
    }
    position = position_of(embedding, token);
    packed_row(embedding, loop->self->kernels.unpack, position, q);
    return embedding->packed.scales[position];
}

/* Returns the bytes of a block of outputs. */
static const void *block_at(const BackendLinear *linear, size_t block, size_t *len_bytesp) {
    const size_t int8_bytes = linear->k_tiles * INT8_TILE_BYTES;
    const PackedWeights *packed = &linear->packed;

    if (!packed->packed) {
        *len_bytesp = int8_bytes;
        return linear->int8.tiles + block * int8_bytes;
    }
    *len_bytesp = (size_t)(packed->offsets[block + 1] - packed->offsets[block]);
    return packed->packed + packed->offsets[block];
}

void cpu_embed_ahead(const BackendLinear *embedding, const uint32_t *tokens, size_t rows) {
    for (size_t r = 0; r < rows; r++) {
        const size_t block = position_of(embedding, tokens[r]) / INT8_TILE_OUTPUTS;
        size_t len_bytes;
        const uintptr_t at = (uintptr_t)block_at(embedding, block, &len_bytes), begin = page_round_down(at);

        (void)madvise((void *)begin, len_bytes + (at - begin), MADV_WILLNEED);
    }
}

static void embed_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const EmbedLoop *loop = arg;
    const RowOps *row_ops = loop->self->row_ops;
    const size_t k = loop->embedding->k;
    const uint32_t rotation_block = loop->embedding->rotation_block;
    int8_t *q = (int8_t *)((float *)loop->self->rotated.data + worker * loop->self->width);

    for (size_t r = begin; r < end; r++) {
        float *y = loop->y + r * k, scale = embedding_row(loop, loop->tokens[r], q);

        row_ops->dequantize(q, scale, k, y);
        if (rotation_block)
            row_ops->hadamard(y, k, rotation_block, y);
        if (loop->factor != 1)
            row_ops->scale(y, loop->factor, k);
    }
}

/* The embedding shares the head's integer rows: integers times the row's scale, rotated back. */
void cpu_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows, float factor,
               float *y) {
    const CpuBackend *self = (const CpuBackend *)backend;
    EmbedLoop loop = { .self = self, .embedding = embedding, .tokens = tokens, .factor = factor, .y = y };

    assert(embedding->k <= self->width);
    cpu_run_rows(backend, embed_rows, &loop, rows, embedding->k);
}
