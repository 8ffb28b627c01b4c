// SPDX-License-Identifier: Apache-2.0
/* Shadow outliers of the cpu device (llm.npu 3.3): what of an input lies past the scale of its tensor is multiplied
 * with its columns of the weights in float, beside the int8 product. Columns of hot channels are in memory, others are
 * read from the package when they are needed, and some of them are kept for a while. */
#ifndef COORDGEN_BACKENDS_CPU_CPU_SHADOW_H
#define COORDGEN_BACKENDS_CPU_CPU_SHADOW_H

#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "backends/cpu/rows/row_ops.h"

/* Of one matrix: its columns. */
typedef struct Shadow Shadow;

/* All its memory, on the weights' account. 0, BACKEND_E_WEIGHTS, BACKEND_E_MEMORY, -ENOMEM. id: unlike those of all
 * other matrices. */
int shadow_new(Shadow **shadowp, AccountTable *accounts, const LinearSource *source, uint64_t id, ErrText *err);
/* Its hot columns, from the source of shadow_new(). 0, BACKEND_E_WEIGHTS. */
int shadow_fill(Shadow *shadow, const LinearSource *source, ErrText *err);
Shadow *shadow_free(Shadow *shadow);

/* Of a device: the outliers of one call, and the columns that were read. Zero: nothing is reserved. */
typedef struct ShadowScratch {
    AccountedBlock lists, columns;
    size_t max_rows, width, capacity, column_bytes;
    _Atomic size_t n_found;
    /* By arrival, [capacity]; then sorted by channel, whose own begin at starts[channel]. */
    uint32_t *found_channels, *found_rows, *channels, *rows, *starts;
    float *found_rests, *rests;
    uint8_t *is_waiting; /* [max_rows]: its outliers did not fit in */
    struct ShadowSlot *slots;
    size_t next_slot;
    uint64_t batch;
    ShadowCounts counts;
} ShadowScratch;

/* Room for calls of max_rows rows of `width` inputs, and columns of n_outputs; what is there stays when it will do. */
int shadow_reserve(ShadowScratch *scratch, AccountTable *accounts, size_t max_rows, size_t width, size_t n_outputs,
                   ErrText *err);
void shadow_deinit(ShadowScratch *scratch);

/* Before a call, then as long as there are waiting rows: shadow_begin(); for every waiting row, on any thread,
 * shadow_take_row(); shadow_sort(); after the product, shadow_add(). */
void shadow_begin_call(ShadowScratch *scratch, size_t rows);
void shadow_begin(ShadowScratch *scratch);
static inline bool shadow_is_waiting(const ShadowScratch *scratch, size_t row) {
    return scratch->is_waiting[row];
}
/* x: as it was quantized, with n_outliers outliers. */
void shadow_take_row(ShadowScratch *scratch, const RowOps *row_ops, size_t row, const float *x, size_t n, float scale,
                     size_t n_outliers);
/* When all rows of the turn are taken: columns that are not in memory begin to be read, so that they arrive while the
 * product is computed. shadows[n]: of the matrices of the call. */
void shadow_sort(ShadowScratch *scratch, const Shadow *const *shadows, size_t n);
/* Adds the shadows of the rows that were taken to y[i], f32[rows][n_i]. *againp: rows are still waiting. */
int shadow_add(ShadowScratch *scratch, const RowOps *row_ops, WorkerPool *pool, const Shadow *const *shadows, size_t n,
               size_t rows, float *const *y, bool *againp, ErrText *err);

#endif
