// SPDX-License-Identifier: Apache-2.0
/* Relative error of a quantized channel (EdgeFlow 4.1), the cosine distance of the weights and what they become: the
 * estimate that needs only two statistics of the weights. */
#ifndef COORDGEN_QUANT_RELATIVE_ERROR_H
#define COORDGEN_QUANT_RELATIVE_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *peakp = max^2 / mean of squares of w[n], 1..n; 0 for a channel of zeros. False when a value is not finite. */
bool relative_error_peak(const float *w, size_t n, double *peakp);
/* RE(W, B) = 4^-B peak: the paper's. */
double relative_error(double peak, int bits);

#endif
