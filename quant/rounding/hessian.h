// SPDX-License-Identifier: Apache-2.0
/* Second moments of a product's inputs over calibration rows, H = X^T X, and its factor: what error-compensated
 * rounding (compensate.h) and the measured sensitivities need. Factorizations are LAPACK's, in tiles of a fixed
 * size, each on one thread: the bits depend on the machine's LAPACK kernels, but not on the number of threads. */
#ifndef COORDGEN_QUANT_HESSIAN_H
#define COORDGEN_QUANT_HESSIAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/system/worker_pool.h"

enum {
    HESSIAN_E_SINGULAR = 1, /* not positive definite even when damped: inputs that are not finite, or nothing but
                             * zeros */
};

/* P H P^T = M D M^T for a permutation P: the inputs in the order of rising diagonal. */
typedef struct HessianFactor {
    size_t k;
    uint32_t *order; /* [k]: which input stands at a position */
    float *m;        /* f32[k][k], row-major by position: unit lower triangle M; above the diagonal P H P^T, damped */
    float *d;        /* f32[k] > 0 */
    float *diagonal; /* f32[k] > 0: of P H P^T, damped */
} HessianFactor;

/* h f32[k][k] += x^T x for rows x f32[rows][k]; only the lower triangle (and the tiles on the diagonal) is kept up. */
void hessian_add(float *h, const float *x, size_t rows, size_t k, WorkerPool *pool);
/* h = (1 - part) h + part * (the moments that inputs of these energies would have if they were independent). energies
 * f32[k]: sum of squares of every input before its rotation by blocks of rotation_block (0: not rotated). 0 or
 * -ENOMEM. */
int hessian_shrink(float *h, const float *energies, size_t k, uint32_t rotation_block, float part, WorkerPool *pool);
/* Takes h over (it becomes factor->m), also when it fails. damping: part of the mean diagonal that is added to all of
 * it. */
int hessian_factor(HessianFactor *factor, float *h, size_t k, double damping, WorkerPool *pool);
void hessian_factor_deinit(HessianFactor *factor);

#endif
