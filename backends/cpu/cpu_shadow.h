// SPDX-License-Identifier: Apache-2.0
/* Shadow outliers of the cpu device (llm.npu 3.3). The part of an input past the scale of its tensor is multiplied with
 * its column of the weights in float, beside the int8 product. Columns of hot channels are in memory. Other columns are
 * read from the package on demand; some of them are cached for a while. */
#ifndef COORDGEN_BACKENDS_CPU_CPU_SHADOW_H
#define COORDGEN_BACKENDS_CPU_CPU_SHADOW_H

#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "backends/cpu/rows/row_ops.h"

/* Columns of one matrix. */
typedef struct Shadow Shadow;

/* Allocates all memory of a matrix's shadow, charged to the weights' account. Returns 0, BACKEND_E_WEIGHTS,
 * BACKEND_E_MEMORY or -ENOMEM. id: unique among all matrices. */
int shadow_new(Shadow **shadowp, AccountTable *accounts, const LinearSource *source, uint64_t id, ErrText *err);
/* Reads the hot columns, from the source of shadow_new(). Returns 0 or BACKEND_E_WEIGHTS. */
int shadow_fill(Shadow *shadow, const LinearSource *source, ErrText *err);
Shadow *shadow_free(Shadow *shadow);

/* A device's scratch: the outliers of one call, and the cached columns. All zero: nothing is reserved. */
typedef struct ShadowScratch {
    AccountedBlock lists, columns;
    size_t max_rows, width, capacity, column_bytes;
    _Atomic size_t n_found;
    /* [capacity], in order of arrival; then sorted by channel, the entries of a channel starting at starts[channel]. */
    uint32_t *found_channels, *found_rows, *channels, *rows, *starts;
    float *found_rests, *rests;
    uint8_t *is_waiting; /* [max_rows]: the row's outliers had no room */
    struct ShadowSlot *slots;
    size_t next_slot;
    uint64_t batch;
    ShadowCounts counts;
} ShadowScratch;

/* Reserves room for calls of max_rows rows of `width` inputs, and columns of n_outputs. Sufficient room is kept. */
int shadow_reserve(ShadowScratch *scratch, AccountTable *accounts, size_t max_rows, size_t width, size_t n_outputs,
                   ErrText *err);
void shadow_deinit(ShadowScratch *scratch);

/* Order of calls: shadow_begin_call() first. Then, as long as rows are waiting: shadow_begin(); shadow_take_row() for
 * every waiting row, on any thread; shadow_sort(); after the product, shadow_add(). */
void shadow_begin_call(ShadowScratch *scratch, size_t rows);
void shadow_begin(ShadowScratch *scratch);
static inline bool shadow_is_waiting(const ShadowScratch *scratch, size_t row) {
    return scratch->is_waiting[row];
}
/* Records the outliers of a row. x: the values that were quantized, n_outliers of them outliers. */
void shadow_take_row(ShadowScratch *scratch, const RowOps *row_ops, size_t row, const float *x, size_t n, float scale,
                     size_t n_outliers);
/* Sorts the outliers after all rows of the turn were taken. Columns that are not in memory start to be read, so that
 * they arrive while the product is computed. shadows[n]: of the matrices of the call. */
void shadow_sort(ShadowScratch *scratch, const Shadow *const *shadows, size_t n);
/* Adds the shadows of the recorded rows to y[i], f32[rows][n_i]. *againp: rows are still waiting. */
int shadow_add(ShadowScratch *scratch, const RowOps *row_ops, WorkerPool *pool, const Shadow *const *shadows, size_t n,
               size_t rows, float *const *y, bool *againp, ErrText *err);

#endif
