// SPDX-License-Identifier: Apache-2.0
/* The cpu device computes int8 products with an exact int32 sum. Rows are quantized on the fly with their own scale
 * (dynamic-row) or their tensor's (static-tensor). Float operators have one fixed order, and the KV cache is float16.
 * Every instruction set gives the same bits. Weight matrices are laid out in cpu_weights.c and multiplied in
 * cpu_linear.c; attention is in cpu_attention.c, shadows are in cpu_shadow.c. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "backends/cpu/cpu_private.h"
#include "backends/cpu/kernel_rates.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

/* Number of elements below which an element-wise operator is not worth waking a worker. */
#define INLINE_VALUES 16384
#define ALIGN 64
/* Rows of a thread that reads all weights by itself, as a multiple of the rows that take as long to multiply as their
 * weights take to read. Products then hide the reading. A step has two such groups per thread, so that a group whose
 * rows attend to more does not delay the step's end. Packed weights are expanded again for each group, which costs
 * about 2 % of a prefill. */
#define THREAD_BALANCES 3
#define THREAD_ROWS_MIN 64
#define THREAD_ROWS_PACKED_MIN 128
#define THREAD_ROWS_MAX 256
#define STEP_GROUPS_A_THREAD 2
#define STEP_ROWS_MIN 256
#define STEP_ROWS_MAX 1024

static CpuBackend *cpu(Backend *backend) {
    return (CpuBackend *)backend;
}

static size_t align_up(size_t n, size_t alignment) {
    return (n + alignment - 1) / alignment * alignment;
}

void cpu_run_rows(Backend *backend, WorkerFn *fn, void *arg, size_t rows, size_t values_per_row) {
    if (rows == 1 || rows * values_per_row < INLINE_VALUES)
        fn(arg, 0, rows, 0);
    else
        worker_pool_run(backend->pool, fn, arg, rows, 1);
}

static Backend *cpu_free(Backend *backend) {
    accounted_block_deinit(&cpu(backend)->quantized);
    accounted_block_deinit(&cpu(backend)->rotated);
    accounted_block_deinit(&cpu(backend)->scratch);
    accounted_block_deinit(&cpu(backend)->attending);
    shadow_deinit(&cpu(backend)->shadow);
    arena_free(cpu(backend)->weights);
    free(backend);
    return NULL;
}

static const char *cpu_kernel(const Backend *backend) {
    return ((const CpuBackend *)backend)->kernels.product->name;
}

static int reserve_block(Backend *backend, AccountedBlock *block, size_t len_bytes, ErrText *err) {
    int r;

    accounted_block_deinit(block);
    r = accounted_block_init(block, backend->accounts, ACCOUNT_ACTIVATIONS, len_bytes);
    return r ? account_refused(err, BACKEND_E_MEMORY, r, backend->accounts, ACCOUNT_ACTIVATIONS, len_bytes,
                               "the scratch of operators")
             : 0;
}

static int cpu_reserve(Backend *backend, const BackendShape *shape, ErrText *err) {
    CpuBackend *self = cpu(backend);
    size_t n_threads = worker_pool_n_threads(backend->pool);
    int r;

    self->width = align_up(shape->width, ALIGN / sizeof(float));
    self->width_padded = align_up(shape->width, INT8_TILE_INPUTS);
    self->max_rows = shape->rows;
    self->scratch_bytes = align_up(packed_kernels_scratch_bytes(&self->kernels, int8_tiles_for(shape->width)), ALIGN);
    self->rows_bytes =
        int8_rows_bytes(shape->rows, int8_tile_rows(self->kernels.product, shape->rows), self->width_padded);
    r = reserve_block(backend, &self->quantized,
                      self->rows_bytes * (self->kernels.product->shifted ? 2 : 1) +
                          shape->rows * (sizeof(float) + sizeof(int32_t)),
                      err);
    if (!r)
        r = reserve_block(backend, &self->rotated, n_threads * self->width * sizeof(float), err);
    if (!r)
        r = reserve_block(backend, &self->scratch, n_threads * self->scratch_bytes, err);
    if (!r)
        r = reserve_block(backend, &self->attending,
                          cpu_attention_bytes(self, shape->n_heads / shape->n_kv_heads, shape->head_size), err);
    if (!r && self->shadow_inputs)
        r = shadow_reserve(&self->shadow, backend->accounts, self->max_rows, self->shadow_inputs, self->shadow_outputs,
                           err);
    return r;
}

int cpu_reserve_shadows_of(Backend *backend, const Backend *owner, ErrText *err) {
    CpuBackend *self = cpu(backend);

    self->shadow_inputs = ((const CpuBackend *)owner)->shadow_inputs;
    self->shadow_outputs = ((const CpuBackend *)owner)->shadow_outputs;
    return self->shadow_inputs ? shadow_reserve(&self->shadow, backend->accounts, self->max_rows, self->shadow_inputs,
                                                self->shadow_outputs, err)
                               : 0;
}

static void cpu_shadow_counts(const Backend *backend, ShadowCounts *counts) {
    *counts = ((const CpuBackend *)backend)->shadow.counts;
}

/* Attention's scratch does not grow with the positions. */
static int cpu_reserve_positions(Backend *backend, size_t n_positions, ErrText *err) {
    return 0;
}

/* --- float operators ---------------------------------------------------------------------------------------------- */

typedef struct NormLoop {
    const RowOps *row_ops;
    const float *x, *w;
    float eps;
    size_t n;
    float *y;
} NormLoop;

static void norm_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const NormLoop *loop = arg;

    for (size_t r = begin; r < end; r++)
        loop->row_ops->rms_norm(loop->x + r * loop->n, loop->w, loop->eps, loop->n, loop->y + r * loop->n);
}

static void cpu_norm(Backend *backend, const float *x, const float *w, float eps, size_t rows, size_t n, float *y) {
    NormLoop loop = { .row_ops = cpu(backend)->row_ops, .x = x, .w = w, .eps = eps, .n = n, .y = y };

    cpu_run_rows(backend, norm_rows, &loop, rows, n);
}

typedef struct LayerNormLoop {
    const RowOps *row_ops;
    const float *x, *w, *bias;
    float eps;
    size_t n;
    float *y;
} LayerNormLoop;

static void layer_norm_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const LayerNormLoop *loop = arg;

    for (size_t r = begin; r < end; r++)
        loop->row_ops->layer_norm(loop->x + r * loop->n, loop->w, loop->bias, loop->eps, loop->n,
                                  loop->y + r * loop->n);
}

static void cpu_layer_norm(Backend *backend, const float *x, const float *w, const float *bias, float eps, size_t rows,
                           size_t n, float *y) {
    LayerNormLoop loop = { .row_ops = cpu(backend)->row_ops, .x = x, .w = w, .bias = bias, .eps = eps, .n = n, .y = y };

    cpu_run_rows(backend, layer_norm_rows, &loop, rows, n);
}

typedef struct RopeLoop {
    void (*fn)(float *x, const float *cos, const float *sin, size_t n_rot);
    float *x;
    const float *cos, *sin;
    size_t n_heads, head_size, n_rot;
} RopeLoop;

static void rope_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const RopeLoop *loop = arg;

    for (size_t r = begin; r < end; r++)
        for (size_t h = 0; h < loop->n_heads; h++)
            loop->fn(loop->x + (r * loop->n_heads + h) * loop->head_size, loop->cos + r * (loop->n_rot / 2),
                     loop->sin + r * (loop->n_rot / 2), loop->n_rot);
}

static void cpu_rope(Backend *backend, float *x, const float *cos, const float *sin, size_t rows, size_t n_heads,
                     size_t head_size, size_t n_rot, bool neox) {
    const RowOps *row_ops = cpu(backend)->row_ops;
    RopeLoop loop = { .fn = neox ? row_ops->rope_neox : row_ops->rope_norm,
                      .x = x,
                      .cos = cos,
                      .sin = sin,
                      .n_heads = n_heads,
                      .head_size = head_size,
                      .n_rot = n_rot };

    cpu_run_rows(backend, rope_rows, &loop, rows, n_heads * head_size);
}

typedef struct GatedLoop {
    void (*fn)(const float *gate, const float *up, size_t n, float *out);
    float *gate;
    const float *up;
    size_t n;
} GatedLoop;

static void gated_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const GatedLoop *loop = arg;

    for (size_t r = begin; r < end; r++)
        loop->fn(loop->gate + r * loop->n, loop->up + r * loop->n, loop->n, loop->gate + r * loop->n);
}

void cpu_gated(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu) {
    const RowOps *row_ops = cpu(backend)->row_ops;
    GatedLoop loop = { .fn = gelu ? row_ops->gelu_mul : row_ops->silu_mul, .gate = gate, .up = up, .n = n };

    cpu_run_rows(backend, gated_rows, &loop, rows, n);
}

typedef struct ActivateLoop {
    void (*fn)(float *x, size_t n);
    float *x;
    size_t n;
} ActivateLoop;

static void activate_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const ActivateLoop *loop = arg;

    loop->fn(loop->x + begin * loop->n, (end - begin) * loop->n);
}

static void cpu_activate(Backend *backend, float *x, size_t rows, size_t n, bool gelu) {
    const RowOps *row_ops = cpu(backend)->row_ops;
    ActivateLoop loop = { .fn = gelu ? row_ops->gelu : row_ops->silu, .x = x, .n = n };

    cpu_run_rows(backend, activate_rows, &loop, rows, n);
}

typedef struct AddLoop {
    const RowOps *row_ops;
    float *x;
    const float *y;
    size_t n;
} AddLoop;

static void add_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AddLoop *loop = arg;

    loop->row_ops->add(loop->x + begin * loop->n, loop->y + begin * loop->n, (end - begin) * loop->n);
}

static void cpu_add(Backend *backend, float *x, const float *y, size_t rows, size_t n) {
    AddLoop loop = { .row_ops = cpu(backend)->row_ops, .x = x, .y = y, .n = n };

    cpu_run_rows(backend, add_rows, &loop, rows, n);
}

static int cpu_thread_new(const Backend *backend, Backend **threadp, WorkerPool *pool, ErrText *err);
static size_t cpu_thread_rows(const Backend *backend);
static size_t cpu_step_rows(const Backend *backend);
static size_t cpu_idle_rows(const Backend *backend, size_t rows);

static const BackendOps cpu_ops = {
    .name = "cpu",
    .kv_type = "int8",
    .kv_row_bytes = kv_row_bytes,
    .kv_block_positions = KV_BLOCK,
    .free = cpu_free,
    .kernel = cpu_kernel,
    .reserve = cpu_reserve,
    .thread_new = cpu_thread_new,
    .thread_rows = cpu_thread_rows,
    .step_rows = cpu_step_rows,
    .idle_rows = cpu_idle_rows,
    .reserve_positions = cpu_reserve_positions,
    .linear_new = cpu_linear_new,
    .linear_begin = cpu_linear_begin,
    .linear_fill = cpu_linear_fill,
    .linear_finish = cpu_linear_finish,
    .linears_begun = cpu_linears_begun,
    .linear_image = cpu_linear_image,
    .linear_image_bytes = cpu_linear_image_bytes,
    .linear_at = cpu_linear_at,
    .image_layout = CPU_IMAGE_LAYOUT,
    .linear_free = cpu_linear_free,
    .linear = cpu_linear,
    .has_pieces = cpu_has_pieces,
    .linear_pieces = cpu_linear_pieces,
    .fuses = true,
    .shadow_counts = cpu_shadow_counts,
    .embed_ahead = cpu_embed_ahead,
    .embed = cpu_embed,
    .norm = cpu_norm,
    .layer_norm = cpu_layer_norm,
    .rope = cpu_rope,
    .kv_store = cpu_kv_store,
    .attention = cpu_attention,
    .kv_move = cpu_kv_move,
    .gated = cpu_gated,
    .activate = cpu_activate,
    .add = cpu_add,
};

int backend_cpu_new(Backend **backendp, uint32_t features, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    CpuBackend *made = calloc(1, sizeof(*made));

    if (!made || arena_new(&made->weights, accounts, ACCOUNT_WEIGHTS)) {
        free(made);
        return err_no_memory(err);
    }
    made->backend = (Backend){ .ops = &cpu_ops, .pool = pool, .accounts = accounts };
    made->row_ops = row_ops_select(features);
    made->attention = attention_select(features);
    made->kernels = packed_kernels_select(features);
    *backendp = &made->backend;
    return 0;
}

/* Handles share the columns read from the package, and the counts. */
static int cpu_thread_new(const Backend *backend, Backend **threadp, WorkerPool *pool, ErrText *err) {
    const CpuBackend *self = (const CpuBackend *)backend;
    CpuBackend *thread;

    if (self->shadow_inputs)
        return BACKEND_E_SHARED;
    thread = calloc(1, sizeof(*thread));
    if (!thread)
        return err_no_memory(err);
    thread->backend = (Backend){ .ops = &cpu_ops, .pool = pool, .accounts = backend->accounts };
    thread->row_ops = self->row_ops;
    thread->attention = self->attention;
    thread->kernels = self->kernels;
    *threadp = &thread->backend;
    return 0;
}

static size_t cpu_thread_rows(const Backend *backend) {
    const CpuBackend *self = (const CpuBackend *)backend;

    const double wanted = THREAD_BALANCES * kernel_rates_balance_rows(&self->kernels, backend->pool, backend->accounts);
    size_t rows = self->has_packed ? THREAD_ROWS_PACKED_MIN : THREAD_ROWS_MIN;

    while (rows < THREAD_ROWS_MAX && (double)rows < wanted)
        rows *= 2;
    return rows;
}

static size_t cpu_step_rows(const Backend *backend) {
    const size_t groups = STEP_GROUPS_A_THREAD * worker_pool_n_threads(backend->pool),
                 rows = groups * cpu_thread_rows(backend);

    return CLAMP(rows, STEP_ROWS_MIN, STEP_ROWS_MAX);
}

/* A tile has only as many rows as the call if the call has fewer than a full tile. */
static size_t cpu_idle_rows(const Backend *backend, size_t rows) {
    const size_t tile_rows = int8_tile_rows(((const CpuBackend *)backend)->kernels.product, rows);

    return tile_rows ? (tile_rows - rows % tile_rows) % tile_rows : 0;
}
