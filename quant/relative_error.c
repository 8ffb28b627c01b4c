// SPDX-License-Identifier: Apache-2.0
#include "quant/relative_error.h"

#include <assert.h>
#include <math.h>

#include "quant/format/grid.h"
#include "quant/rounding/scale_search.h"

enum {
    N_LANES = 16
};

/**
 * relative_error_peak() - compute max^2 / mean of squares, on which alone RE depends
 * @w:     f32[n], n above 0
 * @peakp: out: 1 (all magnitudes equal) .. n (one weight); 0 for a channel of zeros (SCALE_SEARCH_WEIGHT_MIN)
 *
 * Weights are divided by the largest, and their squares summed in float64 in 16 lanes by index mod 16: no overflow,
 * and the same bits on every machine. Thread: any.
 *
 * Return: false, with nothing written, if a weight is not finite.
 */
bool relative_error_peak(const float *w, size_t n, double *peakp) {
    double lanes[N_LANES] = { 0 }, sum = 0;
    float largest;

    assert(n);
    if (!scale_of_largest(w, n, GRID_UNIFORM, 1, &largest)) /* the largest level of one bit is 1 */
        return false;
    if (!(largest > 0)) {
        *peakp = 0;
        return true;
    }
    for (size_t i = 0; i < n; i += N_LANES)
        for (size_t j = 0; j < N_LANES && i + j < n; j++)
            lanes[j] += (double)w[i + j] * (double)w[i + j];
    for (size_t j = 0; j < N_LANES; j++)
        sum += lanes[j];
    *peakp = (double)largest * (double)largest * (double)n / sum;
    return true;
}

double relative_error(double peak, int bits) {
    assert(bits >= GRID_BITS_MIN && bits <= GRID_BITS_MAX);
    return ldexp(peak, -2 * bits);
}
