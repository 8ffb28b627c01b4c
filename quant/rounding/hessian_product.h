// SPDX-License-Identifier: Apache-2.0
/* Multiplies rows by the moments that a HessianFactor keeps. Rows have their inputs in the factor's order. The
 * caller's thread computes; the bits depend on the machine's BLAS, and on which rows are computed together. */
#ifndef COORDGEN_QUANT_HESSIAN_PRODUCT_H
#define COORDGEN_QUANT_HESSIAN_PRODUCT_H

#include <stddef.h>

#include "quant/rounding/hessian.h"

/* The columns that are computed together. */
#define HESSIAN_COLUMNS 64

/* Gets the symmetric moments of the inputs [from, to), at most HESSIAN_COLUMNS, with one another. */
void hessian_square(const HessianFactor *factor, size_t from, size_t to,
                    float square[HESSIAN_COLUMNS][HESSIAN_COLUMNS]);
/* Computes y f32[n][k] += x[n][from, to) H[from, to) for the inputs outside of [from, to); x is f32[n][k]. */
void hessian_spread(const HessianFactor *factor, const float *x, size_t n, size_t from, size_t to, float *y);
/* Computes y f32[n][k] = x f32[n][k] H. */
void hessian_product(const HessianFactor *factor, const float *x, size_t n, float *y);

#endif
