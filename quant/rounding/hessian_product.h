// SPDX-License-Identifier: Apache-2.0
/* Products of rows with the moments that a HessianFactor keeps. Rows are by position: the inputs in the factor's order.
 * The caller's thread computes; the bits depend on the machine's BLAS, and on which rows are taken together. */
#ifndef COORDGEN_QUANT_HESSIAN_PRODUCT_H
#define COORDGEN_QUANT_HESSIAN_PRODUCT_H

#include <stddef.h>

#include "quant/rounding/hessian.h"

/* Columns that are taken together. */
#define HESSIAN_COLUMNS 64

/* Moments of the inputs [from, to) with one another, at most HESSIAN_COLUMNS of them: symmetric. */
void hessian_square(const HessianFactor *factor, size_t from, size_t to,
                    float square[HESSIAN_COLUMNS][HESSIAN_COLUMNS]);
/* y f32[n][k] += x[n][from, to) H[from, to), for the inputs outside of [from, to); x is f32[n][k], too. */
void hessian_spread(const HessianFactor *factor, const float *x, size_t n, size_t from, size_t to, float *y);
/* y f32[n][k] = x f32[n][k] H. */
void hessian_product(const HessianFactor *factor, const float *x, size_t n, float *y);

#endif
