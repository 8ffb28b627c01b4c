// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/hessian_product.h"

#include <stdbool.h>
#include <string.h>

#include "base/min_max.h"
#include "quant/rounding/blas.h"

/* Reads the moments from the factor's matrix, on and above its diagonal. */
void hessian_square(const HessianFactor *factor, size_t from, size_t to,
                    float square[HESSIAN_COLUMNS][HESSIAN_COLUMNS]) {
    for (size_t i = from; i < to; i++) {
        square[i - from][i - from] = factor->diagonal[i];
        for (size_t j = i + 1; j < to; j++)
            square[i - from][j - from] = square[j - from][i - from] = factor->m[i * factor->k + j];
    }
}

void hessian_spread(const HessianFactor *factor, const float *x, size_t n, size_t from, size_t to, float *y) {
    size_t k = factor->k;
    BlasProduct product = {
        .m = n,
        .k = to - from,
        .alpha = 1,
        .beta = 1,
        .a = x + from,
        .a_stride = k,
        .b_stride = k,
        .c_stride = k,
    };

    if (to < k) {
        product.n = k - to;
        product.b = factor->m + from * k + to;
        product.c = y + to;
        blas_product(&product);
    }
    if (from) {
        product.n = from;
        product.transpose_b = true;
        product.b = factor->m + from;
        product.c = y;
        blas_product(&product);
    }
}

void hessian_product(const HessianFactor *factor, const float *x, size_t n, float *y) {
    size_t k = factor->k;
    float square[HESSIAN_COLUMNS][HESSIAN_COLUMNS];

    memset(y, 0, n * k * sizeof(*y));
    for (size_t from = 0; from < k; from += HESSIAN_COLUMNS) {
        size_t to = MIN(from + HESSIAN_COLUMNS, k);

        hessian_spread(factor, x, n, from, to, y);
        hessian_square(factor, from, to, square);
        blas_product(&(BlasProduct){
            .m = n,
            .n = to - from,
            .k = to - from,
            .alpha = 1,
            .beta = 1,
            .a = x + from,
            .a_stride = k,
            .b = square[0],
            .b_stride = HESSIAN_COLUMNS,
            .c = y + from,
            .c_stride = k,
        });
    }
}
