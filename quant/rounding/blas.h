// SPDX-License-Identifier: Apache-2.0
/* Wraps the few routines of BLAS and LAPACK that coordgen uses. Several threads may call them at once; each call
 * computes on its own thread. The callers choose the pieces of work, so that results do not depend on the number of
 * threads. */
#ifndef COORDGEN_QUANT_BLAS_H
#define COORDGEN_QUANT_BLAS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Loads the library, before any other call. 0, or -ENOENT with a text that names the package. */
int blas_load(ErrText *err);

/* A row-major product c[m][n] = alpha * op(a) op(b) + beta * c, with op(a) m x k and op(b) k x n; strides in elements.
 * */
typedef struct BlasProduct {
    size_t m, n, k;
    bool transpose_a, transpose_b;
    float alpha, beta;
    const float *a, *b;
    size_t a_stride, b_stride;
    float *c;
    size_t c_stride;
} BlasProduct;

void blas_product(const BlasProduct *product);
/* Computes b[m][n] = b l^-T with the lower triangle l[n][n]. */
void blas_solve_lower(const float *l, size_t l_stride, float *b, size_t m, size_t n, size_t b_stride);
/* Computes b[m][n] = b l^-1 with the lower triangle l[n][n]. */
void blas_solve_lower_back(const float *l, size_t l_stride, float *b, size_t m, size_t n, size_t b_stride);
/* Replaces the lower triangle of a[n][n] by its Cholesky factor; false if a is not positive definite. */
bool blas_cholesky(float *a, size_t n, size_t stride);

#endif
