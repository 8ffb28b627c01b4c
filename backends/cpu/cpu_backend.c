/*
 * The cpu device: int8 products with an exact int32 sum, rows quantized on the fly with a scale of their own
 * (dynamic-row) or of their tensor (static-tensor), float operators in one fixed order, a float16 KV cache. Every
 * instruction set gives the same bits. Weight matrices are laid out in cpu_weights.c, their products are in
 * cpu_linear.c, shadows in cpu_shadow.c.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "backends/cpu/cpu_private.h"

/* Elements below which an element-wise operator is not worth waking a worker for. */
#define INLINE_VALUES 16384
#define ALIGN 64

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
    accounted_block_deinit(&cpu(backend)->expanded);
    accounted_block_deinit(&cpu(backend)->scores);
    shadow_deinit(&cpu(backend)->shadow);
    arena_free(cpu(backend)->weights);
    free(backend);
    return NULL;
}

static const char *cpu_kernel(const Backend *backend) {
    return ((const CpuBackend *)backend)->kernels.product->name;
}

static int reserve_block(Backend *backend, AccountedBlock *block, size_t len_bytes, ErrText *err) {
    accounted_block_deinit(block);
    if (accounted_block_init(block, backend->accounts, ACCOUNT_ACTIVATIONS, len_bytes))
        return err_set(err, BACKEND_E_MEMORY, "no memory for %zu bytes of scratch", len_bytes);
    return 0;
}

static int cpu_reserve(Backend *backend, const BackendShape *shape, ErrText *err) {
    CpuBackend *self = cpu(backend);
    size_t n_threads = worker_pool_n_threads(backend->pool), row_bytes;
    int r;

    self->width = align_up(shape->width, ALIGN / sizeof(float));
    self->width_padded = align_up(shape->width, INT8_TILE_INPUTS);
    self->max_rows = shape->rows;
    self->n_heads = shape->n_heads;
    self->expanded_bytes = packed_kernels_scratch_bytes(int8_tiles_for(shape->width));
    row_bytes = self->width_padded * (self->kernels.product->shifted ? 2 : 1) + sizeof(float) + sizeof(int32_t);
    r = reserve_block(backend, &self->quantized, shape->rows * row_bytes, err);
    if (!r)
        r = reserve_block(backend, &self->rotated, n_threads * self->width * sizeof(float), err);
    if (!r)
        r = reserve_block(backend, &self->expanded, n_threads * self->expanded_bytes, err);
    if (!r && self->shadow_inputs)
        r = shadow_reserve(&self->shadow, backend->accounts, self->max_rows, self->shadow_inputs, self->shadow_outputs,
                           err);
    return r;
}

static void cpu_shadow_counts(const Backend *backend, ShadowCounts *counts) {
    *counts = ((const CpuBackend *)backend)->shadow.counts;
}

/* Heads whose scores a worker holds at once: enough for some rows of a head group together. */
static size_t score_heads(const CpuBackend *self) {
    return self->n_heads < 24 ? 24 : self->n_heads;
}

static int cpu_reserve_positions(Backend *backend, size_t n_positions, ErrText *err) {
    CpuBackend *self = cpu(backend);
    size_t n_threads = worker_pool_n_threads(backend->pool);
    int r;

    if (n_positions <= self->n_positions)
        return 0;
    n_positions = align_up(n_positions, 1024);
    self->n_positions = 0;
    r = reserve_block(backend, &self->scores, n_threads * score_heads(self) * n_positions * sizeof(float), err);
    if (!r)
        self->n_positions = n_positions;
    return r;
}

/* --- float operators ----------------------------------------------------------------------------------------------- */

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

#define ATTENTION_ROWS_MAX 8

typedef struct AttentionLoop {
    CpuBackend *self;
    const AttentionCall *call;
    size_t batch; /* rows taken together, so that they share the reading of keys and values */
} AttentionLoop;

/* Index of the loop: batch of rows * n_kv_heads + KV head. */
static void attention_groups(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AttentionLoop *loop = arg;
    const AttentionCall *call = loop->call;
    CpuBackend *self = loop->self;
    size_t hd = call->head_size, stride = call->n_kv_heads * hd, n_group = call->n_heads / call->n_kv_heads;
    float *scores = (float *)self->scores.data + worker * score_heads(self) * self->n_positions;

    for (size_t index = begin; index < end; index++) {
        size_t first = index / call->n_kv_heads * loop->batch, kv_head = index % call->n_kv_heads;
        size_t n = call->rows - first < loop->batch ? call->rows - first : loop->batch;
        AttentionRow rows[ATTENTION_ROWS_MAX];

        for (size_t i = 0; i < n; i++) {
            size_t last = call->position + first + i;
            float *q = call->q + ((first + i) * call->n_heads + kv_head * n_group) * hd;

            rows[i] = (AttentionRow){
                .q = q,
                .k = (const uint16_t *)call->k_cache + kv_head * hd,
                .v = (const uint16_t *)call->v_cache + kv_head * hd,
                .kv_stride = stride,
                .begin = call->window && last >= call->window ? last + 1 - call->window : 0,
                .end = last + 1,
                .n_group = n_group,
                .head_size = hd,
                .scale = call->scale,
                .scores = scores + i * n_group * self->n_positions,
                .out = q,
            };
        }
        self->row_ops->attention_rows(rows, n);
    }
}

/* Rows taken together: as many as the scores of one worker hold, but not so many that a worker has nothing to do. */
static size_t attention_batch(const CpuBackend *self, const AttentionCall *call, size_t n_threads) {
    size_t held = score_heads(self) / (call->n_heads / call->n_kv_heads),
           shared = call->rows * call->n_kv_heads / (4 * n_threads);
    size_t batch = held < ATTENTION_ROWS_MAX ? held : ATTENTION_ROWS_MAX;

    batch = shared < batch ? shared : batch;
    return batch ? batch : 1;
}

static void cpu_attention(Backend *backend, const AttentionCall *call) {
    CpuBackend *self = cpu(backend);
    AttentionLoop loop = { self, call, attention_batch(self, call, worker_pool_n_threads(backend->pool)) };
    size_t n_batches = (call->rows + loop.batch - 1) / loop.batch;
    size_t width = call->n_kv_heads * call->head_size, n_values = call->rows * width;

    assert(call->position + call->rows <= self->n_positions);
    self->row_ops->to_f16(call->k, n_values, (uint16_t *)call->k_cache + call->position * width);
    self->row_ops->to_f16(call->v, n_values, (uint16_t *)call->v_cache + call->position * width);
    worker_pool_run(backend->pool, attention_groups, &loop, n_batches * call->n_kv_heads, 1);
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

static void cpu_gated(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu) {
    const RowOps *row_ops = cpu(backend)->row_ops;
    GatedLoop loop = { .fn = gelu ? row_ops->gelu_mul : row_ops->silu_mul, .gate = gate, .up = up, .n = n };

    cpu_run_rows(backend, gated_rows, &loop, rows, n);
}

static void cpu_add(Backend *backend, float *x, const float *y, size_t rows, size_t n) {
    cpu(backend)->row_ops->add(x, y, rows * n);
}

static const BackendOps cpu_ops = {
    .name = "cpu",
    .kv_type = "f16",
    .kv_element_bytes = sizeof(uint16_t),
    .free = cpu_free,
    .kernel = cpu_kernel,
    .reserve = cpu_reserve,
    .reserve_positions = cpu_reserve_positions,
    .linear_new = cpu_linear_new,
    .linear_begin = cpu_linear_begin,
    .linear_fill = cpu_linear_fill,
    .linear_finish = cpu_linear_finish,
    .linear_free = cpu_linear_free,
    .linear = cpu_linear,
    .shadow_counts = cpu_shadow_counts,
    .embed = cpu_embed,
    .norm = cpu_norm,
    .rope = cpu_rope,
    .attention = cpu_attention,
    .gated = cpu_gated,
    .add = cpu_add,
};

int backend_cpu_new(Backend **backendp, uint32_t features, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    CpuBackend *made = calloc(1, sizeof(*made));

    if (!made || arena_new(&made->weights, accounts, ACCOUNT_WEIGHTS)) {
        free(made);
        return err_set(err, -ENOMEM, "out of memory");
    }
    made->backend = (Backend){ .ops = &cpu_ops, .pool = pool, .accounts = accounts };
    made->row_ops = row_ops_select(features);
    made->kernels = packed_kernels_select(features);
    *backendp = &made->backend;
    return 0;
}
