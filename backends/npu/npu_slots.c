// SPDX-License-Identifier: Apache-2.0
/*
 * Products under way. Each slot has a cpu device of its own for scratch, so that the inputs of one product become int8
 * while another one runs; all slots use the matrices of the unit. The last slot is for products that the processors
 * run: it never goes through the queue.
 */
#include <assert.h>

#include "backends/npu/npu_private.h"
#include "base/clock.h"
#include "base/memory/account_refusal.h"

int npu_reserve_padded(NpuBackend *self, AccountedBlock *padded, ErrText *err) {
    const size_t len_bytes = NPU_PREFILL_ROWS * self->outputs * sizeof(float);
    int r;

    if (padded->len_bytes >= len_bytes)
        return 0;
    accounted_block_deinit(padded);
    r = accounted_block_init(padded, self->backend.accounts, ACCOUNT_ACTIVATIONS, len_bytes);
    return r ? account_refused(err, BACKEND_E_MEMORY, r, self->backend.accounts, ACCOUNT_ACTIVATIONS, len_bytes,
                               "the products of a graph")
             : 0;
}

static int new_slot(NpuBackend *self, NpuSlot *slot, ErrText *err) {
    CpuBackend *unit;
    int r;

    if (slot->unit)
        return 0;
    r = backend_cpu_new(&slot->unit, 0, self->backend.pool, self->backend.accounts, err);
    if (r)
        return r;
    unit = (CpuBackend *)slot->unit;
    unit->row_ops = ((CpuBackend *)self->unit)->row_ops;
    unit->kernels = ((CpuBackend *)self->unit)->kernels;
    return 0;
}

int npu_slots_reserve(NpuBackend *self, const BackendShape *of_graph, ErrText *err) {
    int r = 0;

    if (self->step_rows <= NPU_PREFILL_ROWS) {
        npu_slots_deinit(self);
        npu_attention_deinit(&self->attention);
        return 0;
    }
    r = npu_attention_reserve(self, of_graph->head_size, err);
    for (size_t i = 0; !r && i < ARRAY_LEN(self->slots); i++) {
        r = new_slot(self, &self->slots[i], err);
        if (!r)
            r = self->slots[i].unit->ops->reserve(self->slots[i].unit, of_graph, err);
    }
    return r ? r : npu_slots_follow(self, err);
}

int npu_slots_follow(NpuBackend *self, ErrText *err) {
    int r = 0;

    for (size_t i = 0; !r && i < ARRAY_LEN(self->slots) && self->slots[i].unit; i++) {
        r = cpu_reserve_shadows_of(self->slots[i].unit, self->unit, err);
        if (!r && i < NPU_SLOTS)
            r = npu_reserve_padded(self, &self->slots[i].padded, err);
    }
    return r;
}

void npu_slots_deinit(NpuBackend *self) {
    for (size_t i = 0; i < ARRAY_LEN(self->slots); i++) {
        self->slots[i].unit = backend_free(self->slots[i].unit);
        accounted_block_deinit(&self->slots[i].padded);
    }
}

void npu_slots_add_counts(const NpuBackend *self, ShadowCounts *counts) {
    for (size_t i = 0; i < ARRAY_LEN(self->slots) && self->slots[i].unit; i++) {
        ShadowCounts more;

        self->slots[i].unit->ops->shadow_counts(self->slots[i].unit, &more);
        counts->n_rows += more.n_rows;
        counts->n_outliers += more.n_outliers;
        counts->n_hot += more.n_hot;
        counts->n_columns_read += more.n_columns_read;
        counts->n_columns_cached += more.n_columns_cached;
    }
}

/* --- products ----------------------------------------------------------------------------------------------------- */

void npu_execute(void *arg) {
    GraphRun *run = arg;

    run->time.start_ns = clock_now_ns();
    cpu_static_run(&run->call);
    run->time.end_ns = clock_now_ns();
}

bool npu_is_queued(const BackendLinear *linear) {
    return linear->static_rows;
}

/* Submits a product. For more rows than the graph has, the graph runs several times, one after the other. */
void npu_linear_submit(Backend *backend, size_t index, const BackendLinear *const *linears, size_t n, const float *x,
                       size_t rows, float *const *y) {
    NpuBackend *self = npu(backend);
    NpuSlot *slot = &self->slots[index];
    CpuStaticCall *call = &slot->run.call;
    const size_t rows_of_graph = linears[0]->static_rows;
    size_t outputs = 0;

    assert(slot->unit && index < NPU_SLOTS && rows && rows <= NPU_PREFILL_ROWS);
    *call = (CpuStaticCall){ .self = (CpuBackend *)slot->unit,
                             .linears = slot->linears,
                             .n = n,
                             .x = x,
                             .rows = rows,
                             .rows_of_shape = (rows + rows_of_graph - 1) / rows_of_graph * rows_of_graph,
                             .rows_at_once = linears[0]->rows_at_once,
                             .padded = slot->padded.data };
    for (size_t i = 0; i < n; i++) {
        slot->linears[i] = linears[i];
        call->y[i] = y[i];
        outputs += linears[i]->n;
    }
    slot->tried = NULL;
    if (!call->rows_at_once)
        call->rows_at_once = npu_shapes_choose(&self->shapes, linears[0]->k, outputs, rows_of_graph, &slot->tried);
    if (call->rows_of_shape > rows_of_graph)
        slot->tried = NULL;
    cpu_static_begin(call);
    slot->number = npu_queue_submit(self->queue, npu_execute, &slot->run);
}

bool npu_linear_is_over(const Backend *backend, size_t index) {
    const NpuBackend *self = (const NpuBackend *)backend;

    return npu_queue_counts(self->queue).n_commands >= self->slots[index].number;
}

int npu_linear_end(Backend *backend, size_t index, BackendTime *time, ErrText *err) {
    NpuSlot *slot = &npu(backend)->slots[index];

    npu_queue_wait(npu(backend)->queue, slot->number);
    *time = slot->run.time;
    if (slot->tried)
        npu_shapes_took(slot->tried, time->end_ns - time->start_ns);
    return cpu_static_end(&slot->run.call, err);
}

int npu_linear_here(Backend *backend, const BackendLinear *const *linears, size_t n, const float *x, size_t rows,
                    float *const *y, BackendTime *time, ErrText *err) {
    Backend *unit = npu(backend)->slots[NPU_SLOTS].unit;
    CpuStaticCall call = {
        .self = (CpuBackend *)unit, .linears = linears, .n = n, .x = x, .rows = rows, .rows_of_shape = rows
    };

    assert(n <= CPU_LINEARS_MAX);
    for (size_t i = 0; i < n; i++)
        call.y[i] = y[i];
    cpu_static_begin(&call);
    time->start_ns = clock_now_ns();
    cpu_static_run_split(&call);
    time->end_ns = clock_now_ns();
    return cpu_static_end(&call, err);
}
