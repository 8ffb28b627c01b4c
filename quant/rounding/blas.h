// SPDX-License-Identifier: Apache-2.0
/* The few routines of BLAS and LAPACK that are used, callable from several threads at once, each call on its own
 * thread: the pieces of work are ours to choose, so that results do not depend on the number of threads. */
#ifndef COORDGEN_QUANT_BLAS_H
#define COORDGEN_QUANT_BLAS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Before the first call of the others: 0, or -ENOENT with a text that names the package. */
int blas_load(ErrText *err);

/* Row-major; strides in elements. c[m][n] = alpha * op(a) op(b) + beta * c, op(a) m x k, op(b) k x n. */
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
/* b[m][n] = b l^-T with the lower triangle l[n][n]. */
void blas_solve_lower(const float *l, size_t l_stride, float *b, size_t m, size_t n, size_t b_stride);
/* b[m][n] = b l^-1, likewise. */
void blas_solve_lower_back(const float *l, size_t l_stride, float *b, size_t m, size_t n, size_t b_stride);
/* The lower triangle of a[n][n] becomes its Cholesky factor; false when it is not positive definite. */
bool blas_cholesky(float *a, size_t n, size_t stride);

#endif
