/* Shared by the files of the cpu device. */
#ifndef COORDGEN_BACKENDS_CPU_CPU_PRIVATE_H
#define COORDGEN_BACKENDS_CPU_CPU_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "backends/cpu/cpu_shadow.h"
#include "backends/cpu/packed_kernels.h"
#include "backends/cpu/row_ops.h"

typedef struct CpuBackend {
    Backend backend;
    const RowOps *row_ops;
    PackedKernels kernels;    /* product is the one for matrices that are not packed, too */
    AccountedBlock quantized; /* int8[rows][width_padded], then f32 scales[rows], i32 sums[rows] */
    AccountedBlock rotated;   /* f32[n_threads][width]: the row that a worker rotates */
    AccountedBlock expanded;  /* [n_threads][expanded_bytes]: the panel that a worker expands */
    size_t max_rows, width, width_padded, expanded_bytes;
    AccountedBlock scores; /* f32[n_threads][score_heads()][n_positions]; a head group uses a part */
    size_t n_heads, n_positions;
    ShadowScratch shadow;
    size_t shadow_inputs, shadow_outputs; /* most that a matrix with a shadow has had; 0: there was none */
    uint64_t n_shadows;                   /* ever made: their ids */
} CpuBackend;

/* Rows in parallel, or inline when the work is small. */
void cpu_run_rows(Backend *backend, WorkerFn *fn, void *arg, size_t rows, size_t values_per_row);

/* The operators on matrices, for the device's table (cpu_linear.c). */
int cpu_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err);
BackendLinear *cpu_linear_free(BackendLinear *linear);
int cpu_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const float *x, size_t rows,
               float *const *y, ErrText *err);
void cpu_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows, float factor,
               float *y);

#endif
