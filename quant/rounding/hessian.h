// SPDX-License-Identifier: Apache-2.0
/* The second moments of a product's inputs over calibration rows, H = X^T X, and their factor, for error-compensated
 * rounding (compensate.h) and measured sensitivities. LAPACK factors tiles of a fixed size, each on one thread: the
 * bits depend on the machine's LAPACK kernels, not on the number of threads. */
#ifndef COORDGEN_QUANT_HESSIAN_H
#define COORDGEN_QUANT_HESSIAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/system/worker_pool.h"

enum {
    HESSIAN_E_SINGULAR = 1, /* not positive definite, even damped: inputs that are not finite, or all zero */
};

/* The factor P H P^T = M D M^T; the permutation P puts the inputs in order of rising diagonal. */
typedef struct HessianFactor {
    size_t k;
    uint32_t *order; /* [k]: the input at each position */
    float *m;        /* f32[k][k], row-major by position: unit lower triangle M; above the diagonal P H P^T, damped */
    float *d;        /* f32[k] > 0 */
    float *diagonal; /* f32[k] > 0: of P H P^T, damped */
} HessianFactor;

/* Adds x^T x of rows x f32[rows][k] to h f32[k][k]; updates only the lower triangle and the tiles on the diagonal. */
void hessian_add(float *h, const float *x, size_t rows, size_t k, WorkerPool *pool);
/* Computes h = (1 - part) h + part * m, where m are the moments of independent inputs of these energies. energies
 * f32[k]: the sum of squares of every input before its rotation by blocks of rotation_block (0: not rotated). 0 or
 * -ENOMEM. */
int hessian_shrink(float *h, const float *energies, size_t k, uint32_t rotation_block, float part, WorkerPool *pool);
/* Factors h, which becomes factor->m, and is taken over even on failure. damping: the part of the mean diagonal that
 * is added to the diagonal. */
int hessian_factor(HessianFactor *factor, float *h, size_t k, double damping, WorkerPool *pool);
void hessian_factor_deinit(HessianFactor *factor);

#endif
