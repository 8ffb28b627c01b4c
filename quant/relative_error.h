// SPDX-License-Identifier: Apache-2.0
/* Estimates the relative error of a quantized channel (EdgeFlow 4.1), the cosine distance of its weights before and
 * after, from two statistics of the weights. */
#ifndef COORDGEN_QUANT_RELATIVE_ERROR_H
#define COORDGEN_QUANT_RELATIVE_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets *peakp to max^2 / mean of squares of w[n], 1..n; 0 for a channel of zeros. False if a value is not finite. */
bool relative_error_peak(const float *w, size_t n, double *peakp);
/* Returns the paper's RE(W, B) = 4^-B peak. */
double relative_error(double peak, int bits);

#endif
