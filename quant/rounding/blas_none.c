// SPDX-License-Identifier: Apache-2.0
/*
 * A build without OpenBLAS (WITH_OPENBLAS=no) has the same routines as plain loops, several times slower. The loops
 * add in another order than OpenBLAS, as OpenBLAS itself does on another processor, so a calibrated package has other
 * bits. Inner loops have a fixed length or go along a row, so that the compiler vectorises them.
 */
#include "base/min_max.h"
#include "quant/rounding/blas.h"

#include <math.h>

/* A block of b and its sums for a row of c stay in the first-level cache; 32 KiB fit the stack of any thread. */
#define BLOCK_K 64
#define BLOCK_N 128
#define LANES 16

int blas_load(ErrText *err) {
    return 0;
}

/* Adds LANES sums side by side, then adds these in pairs. */
static float dot(const float *x, const float *y, size_t n) {
    float sums[LANES] = { 0 };
    size_t at = 0;

    for (; at + LANES <= n; at += LANES)
        for (size_t i = 0; i < LANES; i++)
            sums[i] += x[at + i] * y[at + i];
    for (size_t i = 0; at < n; at++, i++)
        sums[i] += x[at] * y[at];
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

/* Computes y += factor * x. */
static void add_row(float *restrict y, const float *restrict x, float factor, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* --- products ----------------------------------------------------------------------------------------------------- */

typedef struct Block {
    size_t k, k_end; /* rows of op(b) */
    size_t n, n_end; /* columns of op(b) and of c */
    float b[BLOCK_K][BLOCK_N];
} Block;

/* Computes c = beta c; with beta 0, c may hold anything before. */
static void scale_out(const BlasProduct *p) {
    for (size_t row = 0; row < p->m; row++) {
        float *c = p->c + row * p->c_stride;

        for (size_t i = 0; i < p->n; i++)
            c[i] = p->beta == 0 ? 0 : p->beta * c[i];
    }
}

static void copy_block(const BlasProduct *p, Block *block) {
    for (size_t k = block->k; k < block->k_end; k++)
        for (size_t i = block->n; i < block->n_end; i++)
            block->b[k - block->k][i - block->n] =
                p->transpose_b ? p->b[i * p->b_stride + k] : p->b[k * p->b_stride + i];
}

/* Adds the sums of a block apart, because small terms added to a long sum one by one would lose more bits. */
static void add_block(const BlasProduct *p, const Block *block) {
    const size_t len = block->n_end - block->n;

    for (size_t row = 0; row < p->m; row++) {
        float sums[BLOCK_N] = { 0 };

        for (size_t k = block->k; k < block->k_end; k++)
            add_row(sums, block->b[k - block->k],
                    p->transpose_a ? p->a[k * p->a_stride + row] : p->a[row * p->a_stride + k], len);
        add_row(p->c + row * p->c_stride + block->n, sums, p->alpha, len);
    }
}

void blas_product(const BlasProduct *product) {
    Block block;

    scale_out(product);
    for (block.n = 0; block.n < product->n; block.n = block.n_end) {
        block.n_end = MIN(block.n + BLOCK_N, product->n);
        for (block.k = 0; block.k < product->k; block.k = block.k_end) {
            block.k_end = MIN(block.k + BLOCK_K, product->k);
            copy_block(product, &block);
            add_block(product, &block);
        }
    }
}

/* --- triangles ---------------------------------------------------------------------------------------------------- */

/* Solves from the first output to the last, subtracting the part of the solved outputs from each. */
void blas_solve_lower(const float *l, size_t l_stride, float *b, size_t m, size_t n, size_t b_stride) {
    for (size_t row = 0; row < m; row++) {
        float *x = b + row * b_stride;

        for (size_t i = 0; i < n; i++)
            x[i] = (x[i] - dot(l + i * l_stride, x, i)) / l[i * l_stride + i];
    }
}

/* Solves from the last output to the first, subtracting each solved output from all before it. */
void blas_solve_lower_back(const float *l, size_t l_stride, float *b, size_t m, size_t n, size_t b_stride) {
    for (size_t row = 0; row < m; row++) {
        float *x = b + row * b_stride;

        for (size_t i = n; i-- > 0;) {
            x[i] /= l[i * l_stride + i];
            add_row(x, l + i * l_stride, -x[i], i);
        }
    }
}

bool blas_cholesky(float *a, size_t n, size_t stride) {
    for (size_t i = 0; i < n; i++) {
        float *row = a + i * stride, left;

        for (size_t j = 0; j < i; j++)
            row[j] = (row[j] - dot(row, a + j * stride, j)) / a[j * stride + j];
        left = row[i] - dot(row, row, i);
        if (!(left > 0)) /* NaN is refused too */
            return false;
        row[i] = sqrtf(left);
    }
    return true;
}
