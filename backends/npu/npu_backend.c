// SPDX-License-Identifier: Apache-2.0
/*
 * The npu device runs products as the NPU of a phone does, under its rules, on this machine's processors. The NPU runs
 * products of int8 matrices whose inputs have one scale a tensor, and nothing else. Products have static shapes: a
 * product computes all rows of its graph, padded with zeros if the call has fewer; for more rows the graph runs
 * repeatedly. Products go through a queue to one thread, the NPU. The processors do all other work: float operators,
 * making inputs int8, shadow outliers, and the output head, whose inputs have a scale a row.
 *
 * Two cpu devices do the work: `host` has the operators and the matrices of dynamic rows, `unit` those of static
 * tensors. Each has scratch of its own, so that both can work at once. The results are the cpu device's, bit by bit.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/borrowed_ops.h"
#include "backends/npu/npu_private.h"
#include "base/min_max.h"

static Backend *npu_free(Backend *backend) {
    NpuBackend *self = npu(backend);

    npu_queue_free(self->queue);
    npu_slots_deinit(self);
    npu_attention_deinit(&self->attention);
    backend_free(self->backend.host);
    backend_free(self->unit);
    accounted_block_deinit(&self->padded);
    free(self);
    return NULL;
}

static const char *npu_kernel(const Backend *backend) {
    const NpuBackend *self = (const NpuBackend *)backend;

    return self->unit->ops->kernel(self->unit);
}

/* The unit never has more rows at once than a graph. */
static int npu_reserve(Backend *backend, const BackendShape *shape, ErrText *err) {
    NpuBackend *self = npu(backend);
    BackendShape of_graph = *shape;
    int r = borrowed_reserve(backend, shape, err);

    of_graph.rows = NPU_PREFILL_ROWS;
    if (!r)
        r = self->unit->ops->reserve(self->unit, &of_graph, err);
    self->is_reserved = !r;
    self->step_rows = shape->rows;
    if (!r)
        r = npu_reserve_padded(self, &self->padded, err);
    return r ? r : npu_slots_reserve(self, &of_graph, err);
}

static void npu_shadow_counts(const Backend *backend, ShadowCounts *counts) {
    const NpuBackend *self = (const NpuBackend *)backend;

    self->unit->ops->shadow_counts(self->unit, counts);
    npu_slots_add_counts(self, counts);
}

/* A step fills the graph for prompts. */
static size_t npu_step_rows(const Backend *backend) {
    return NPU_PREFILL_ROWS;
}

static size_t npu_idle_rows(const Backend *backend, size_t rows) {
    return (NPU_DECODE_ROWS - rows % NPU_DECODE_ROWS) % NPU_DECODE_ROWS;
}

/* --- matrices ----------------------------------------------------------------------------------------------------- */

static bool is_static(const LinearSource *source) {
    return source->activations.scale; /* compared with 0 exactly; invalid scales are refused elsewhere */
}

/* Returns the cpu device that has the matrix. */
static Backend *owner_of(Backend *backend, bool of_static_tensor) {
    return of_static_tensor ? npu(backend)->unit : backend->host;
}

/* Makes room for the matrix's products in calls of fewer rows than the graph. Until npu_linear_shape() is called the
 * graph is one for decoding. */
static int take_static(NpuBackend *self, BackendLinear *linear, const char *name, ErrText *err) {
    const size_t outputs = self->outputs;
    int r;

    linear->static_rows = NPU_DECODE_ROWS;
    self->outputs = MAX(linear->n, outputs);
    r = self->is_reserved ? npu_reserve_padded(self, &self->padded, err) : 0;
    if (!r && self->is_reserved)
        r = npu_slots_follow(self, err);
    if (!r)
        return 0;
    self->outputs = outputs;
    self->is_reserved = !npu_reserve_padded(self, &self->padded, NULL); /* as it was */
    err_prefix(err, "tensor '%s'", name);
    return r;
}

/* Makes a matrix as the cpu device does, and what a graph needs beside it. */
static int make_linear(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err,
                       int (*make)(Backend *, BackendLinear **, const LinearSource *, ErrText *)) {
    BackendLinear *linear = NULL;
    int r = make(owner_of(backend, is_static(source)), &linear, source, err);

    if (!r && is_static(source) && (r = take_static(npu(backend), linear, source->name, err)))
        cpu_linear_free(linear);
    if (!r)
        *linearp = linear;
    return r;
}

static int npu_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    return make_linear(backend, linearp, source, err, cpu_linear_new);
}

static int npu_linear_begin(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err) {
    return make_linear(backend, linearp, source, err, cpu_linear_begin);
}

static void npu_linear_fill(const Backend *backend, BackendLinear *linear, size_t block_begin, size_t block_end,
                            const void *bytes) {
    cpu_linear_fill(owner_of((Backend *)backend, linear->static_scale > 0), linear, block_begin, block_end, bytes);
}

static bool npu_linear_expand(const Backend *backend, const BackendLinear *linear, size_t block_begin, size_t block_end,
                              const void *bytes, void *integers) {
    return cpu_linear_expand(((const NpuBackend *)backend)->unit, linear, block_begin, block_end, bytes, integers);
}

static int npu_linear_finish(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err) {
    return cpu_linear_finish(owner_of(backend, is_static(source)), linear, source, err);
}

/* Ends the making of matrices outside the graphs. */
static void npu_linears_begun(Backend *backend) {
    cpu_linears_begun(owner_of(backend, false));
}

static void npu_linear_shape(BackendLinear *linear, size_t rows, size_t rows_at_once) {
    assert(linear->static_scale > 0);
    assert(rows == NPU_PREFILL_ROWS || rows == NPU_DECODE_ROWS);
    assert(!rows_at_once || (rows % rows_at_once == 0 && rows_at_once % INT8_TILE_ROWS == 0));
    linear->static_rows = rows;
    linear->rows_at_once = rows_at_once;
}

/* Runs a graph once, for at most as many rows as it has. */
static int run_graph(NpuBackend *self, const BackendLinear *const *linears, size_t n, const float *x, size_t rows,
                     float *const *y, ErrText *err) {
    GraphRun run = { .call = { .self = (CpuBackend *)self->unit,
                               .linears = linears,
                               .n = n,
                               .x = x,
                               .rows = rows,
                               .rows_of_shape = linears[0]->static_rows,
                               .rows_at_once = linears[0]->rows_at_once,
                               .padded = self->padded.data } };
    NpuProduct *tried = NULL;
    size_t outputs = 0;

    for (size_t i = 0; i < n; i++) {
        run.call.y[i] = y[i];
        outputs += linears[i]->n;
    }
    if (!run.call.rows_at_once)
        run.call.rows_at_once =
            npu_shapes_choose(&self->shapes, linears[0]->k, outputs, run.call.rows_of_shape, &tried);
    cpu_static_begin(&run.call);
    npu_queue_wait(self->queue, npu_queue_submit(self->queue, npu_execute, &run));
    if (tried)
        npu_shapes_took(tried, run.time.end_ns - run.time.start_ns);
    return cpu_static_end(&run.call, err);
}

static int npu_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                      size_t rows, const LinearOutput *out, ErrText *err) {
    NpuBackend *self = npu(backend);
    const size_t rows_of_graph = linears[0]->static_rows;
    int r = 0;

    assert(!in->norm && !out->gate); /* this device does not fuse */
    if (!rows_of_graph)
        return cpu_linear(backend->host, linears, n, in, rows, out, err);
    for (size_t i = 0; i < n; i++)
        assert(linears[i]->static_rows == rows_of_graph && linears[i]->rows_at_once == linears[0]->rows_at_once);
    for (size_t first = 0; !r && first < rows; first += rows_of_graph) {
        const size_t left = rows - first;
        float *y[CPU_LINEARS_MAX];

        for (size_t i = 0; i < n; i++)
            y[i] = out->y[i] + first * linears[i]->n;
        r = run_graph(self, linears, n, in->x + first * linears[0]->k, MIN(left, rows_of_graph), y, err);
    }
    return r;
}

static bool npu_has_pieces(const BackendLinear *linear) {
    return !linear->static_rows && cpu_has_pieces(linear);
}

static int npu_linear_pieces(Backend *backend, const BackendLinear *linear, const float *x, size_t rows,
                             size_t n_outputs, float *scratch, LinearPieceFn *take, void *arg, ErrText *err) {
    return cpu_linear_pieces(backend->host, linear, x, rows, n_outputs, scratch, take, arg, err);
}

static void npu_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows,
                      float factor, float *y) {
    cpu_embed(backend->host, embedding, tokens, rows, factor, y);
}

/* --- the device --------------------------------------------------------------------------------------------------- */

static const BackendOps npu_ops = {
    .name = "npu",
    .kv_type = "int8",
    .kv_row_bytes = kv_row_bytes,
    .kv_block_positions = KV_BLOCK,
    .free = npu_free,
    .kernel = npu_kernel,
    .reserve = npu_reserve,
    .step_rows = npu_step_rows,
    .idle_rows = npu_idle_rows,
    .linear_new = npu_linear_new,
    .linear_begin = npu_linear_begin,
    .linear_fill = npu_linear_fill,
    .linear_finish = npu_linear_finish,
    .linears_begun = npu_linears_begun,
    .linear_image = cpu_linear_image,
    .linear_image_bytes = cpu_linear_image_bytes,
    .linear_at = cpu_linear_at,
    .image_layout = "npu " CPU_IMAGE_LAYOUT, /* graphs are never packed */
    .prefill_rows = NPU_PREFILL_ROWS,
    .decode_rows = NPU_DECODE_ROWS,
    .linear_shape = npu_linear_shape,
    .linear_expand = npu_linear_expand,
    .linear_free = cpu_linear_free,
    .linear = npu_linear,
    .product_slots = NPU_SLOTS,
    .is_queued = npu_is_queued,
    .linear_submit = npu_linear_submit,
    .linear_is_over = npu_linear_is_over,
    .linear_end = npu_linear_end,
    .linear_here = npu_linear_here,
    .attention_joint = npu_attention_joint,
    .has_pieces = npu_has_pieces,
    .linear_pieces = npu_linear_pieces,
    .shadow_counts = npu_shadow_counts,
    .embed = npu_embed,
    BORROWED_OPERATORS,
};

int backend_npu_new(Backend **backendp, uint32_t features, WorkerPool *pool, AccountTable *accounts, ErrText *err) {
    NpuBackend *made = calloc(1, sizeof(*made));
    int r;

    if (!made)
        return err_no_memory(err);
    made->backend = (Backend){ .ops = &npu_ops, .pool = pool, .accounts = accounts };
    r = backend_cpu_new(&made->backend.host, features, pool, accounts, err);
    if (!r)
        r = backend_cpu_new(&made->unit, features, pool, accounts, err);
    if (!r && (r = npu_queue_new(&made->queue)))
        err_set(err, r, "cannot start the thread of the npu device: %s", strerror(-r));
    if (r) {
        npu_free(&made->backend);
        return r;
    }
    *backendp = &made->backend;
    return 0;
}
