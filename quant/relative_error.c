// SPDX-License-Identifier: Apache-2.0
#include "quant/relative_error.h"

#include <assert.h>
#include <math.h>

#include "quant/grid.h"
#include "quant/scale_search.h"

enum {
    N_LANES = 16
};

/**
 * relative_error_peak() - max^2 / mean of squares, all that RE depends on
 * @w:     f32[n], n above 0
 * @peakp: out: 1 (all magnitudes equal) .. n (one weight); 0 for a channel of zeros (scale_search.h says what that is)
 *
 * Squares of weights over the largest, summed in float64 in 16 lanes by index mod 16: no overflow, and the same bits
 * everywhere. Thread: any.
 *
 * Return: false, and nothing written, when a weight is not finite.
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

/* (distance of two levels / 2)^2 over the paper's max^2 / 4^B: (2^B / (2^B - 1))^2 up to 7 bits, (128 / 127)^2 at 8. */
static double grid_ratio(int bits) {
    double ratio = ldexp(grid_factor(bits), bits - 1) / grid_max(GRID_UNIFORM, bits);

    return ratio * ratio;
}

/**
 * relative_error_bound() - the most that relative_error_measured() can be with the scale of the largest weight, or a
 * better one
 *
 * Let E = W - Wq and x = |E|^2 / |W|^2. For any multiple c Wq the distance from W is at least |W| sin(W, Wq), so
 * sin^2 <= x (c = 1). No weight changes its sign, so cos >= 0 and, when x <= 1,
 *     1 - cos = 1 - sqrt(1 - sin^2) <= 1 - sqrt(1 - x) <= x.
 * With the scale of the largest weight every |E_j| is at most half the distance d of two levels, which is
 * d / 2 = max / (2^B - 1) up to 7 bits, max / 254 at 8. So x <= (d / 2)^2 / E[W^2] = RE(W, B) g with
 * g = (2^B / (2^B - 1))^2, or (128 / 127)^2.
 * A searched scale only lowers |E|^2. Hence the bound, for every channel whatever its distribution:
 *     1 - cos <= 1 - sqrt(1 - x), x = min(1, RE(W, B) g)
 *
 * The errors being uniform in +-d / 2, E[E^2] is a third of that, and 1 - cos about half of x: RE(W, B) g / 6 is what
 * is measured on average with the scale of the largest weight (relative_error_expected(); within 20 % from 4 bits on
 * for Gaussian, Laplace and uniform channels of 2048; below, the levels are too few for a uniform error). The paper
 * drops the constant g / 6. Allocation compares RE at different widths of different channels, so a common constant
 * changes nothing; g does vary, by 4 from 1 bit to 8, and keeping the paper's form is a choice.
 */
double relative_error_bound(double peak, int bits) {
    double x = relative_error(peak, bits) * grid_ratio(bits);

    return x < 1 ? x / (1 + sqrt(1 - x)) : 1;
}

double relative_error_expected(double peak, int bits) {
    return relative_error(peak, bits) * grid_ratio(bits) / 6;
}

/**
 * relative_error_measured() - 1 - cos(w, q)
 * @w: f32[n], finite
 * @q: int8[n] levels, all of one width
 *
 * By the distance from the nearest multiple of q: with r = w - c q, c = <w, q> / <q, q>, sin^2 = |r|^2 / |w|^2. The
 * difference 1 - cos would lose its digits at 8 bits, where it is near 1e-5. Fixed order of sums. Thread: any.
 *
 * Return: 0..2; 0 when w or q is all zero.
 */
double relative_error_measured(const float *w, const int8_t *q, size_t n) {
    double wq[N_LANES] = { 0 }, qq[N_LANES] = { 0 }, ww[N_LANES] = { 0 }, rr[N_LANES] = { 0 }, c, sin2;

    for (size_t i = 0; i < n; i++) {
        wq[i % N_LANES] += (double)w[i] * q[i];
        qq[i % N_LANES] += (double)q[i] * q[i];
        ww[i % N_LANES] += (double)w[i] * (double)w[i];
    }
    for (size_t j = 1; j < N_LANES; j++) {
        wq[0] += wq[j];
        qq[0] += qq[j];
        ww[0] += ww[j];
    }
    if (!(qq[0] > 0) || !(ww[0] > 0))
        return 0;
    c = wq[0] / qq[0];
    for (size_t i = 0; i < n; i++) {
        double r = (double)w[i] - c * q[i];

        rr[i % N_LANES] += r * r;
    }
    for (size_t j = 1; j < N_LANES; j++)
        rr[0] += rr[j];
    sin2 = rr[0] < ww[0] ? rr[0] / ww[0] : 1;
    return wq[0] >= 0 ? sin2 / (1 + sqrt(1 - sin2)) : 1 + sqrt(1 - sin2);
}
