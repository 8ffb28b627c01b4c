// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/scale_search.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "base/system/cpu.h"
#include "quant/format/grid.h"
#include "quant/rounding/rounding_error.h"

/* The walk from the largest weight down: a factor of 2^(-1/4), then three halvings of the distance around the best. */
#define WALK_FACTOR 0.8408964152537145
#define WALK_MAX 28 /* to 1/128 of the largest weight; nearly always the bound below ends it after a few */
#define N_HALVINGS 3
static const double halving_factors[N_HALVINGS] = { 0.9170040432046712, 0.9576032806985737, 0.9785720620877001 };
#define N_FITS 2

typedef struct Search {
    RoundingChannel channel;
    RoundingError *error;
    float least;       /* no smaller scale is tried, so that w / scale stays far from overflow */
    double best_error; /* of best_scale, in units of w^2 */
    float best_scale;
} Search;

/* Bits of the largest |x|: for positive floats the order of the bits is the order of the values, and infinities and NaN
 * come last. */
static uint32_t largest_magnitude(const float *x, size_t n) {
    int32_t largest = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t bits;

        memcpy(&bits, x + i, sizeof(bits));
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return (uint32_t)largest;
}

#define INFINITE_BITS 0x7f800000u

/* True when *largestp is set; false when a value is not finite. */
static bool largest_weight(const float *w, size_t n, float *largestp) {
    uint32_t bits = largest_magnitude(w, n);

    if (bits >= INFINITE_BITS)
        return false;
    *largestp = f32_from_bits(bits);
    return true;
}

bool scale_of_largest(const float *w, size_t n, Grid grid, int bits, float *scalep) {
    float largest;

    assert(bits >= GRID_BITS_MIN && bits <= GRID_BITS_MAX);
    if (!largest_weight(w, n, &largest))
        return false;
    *scalep = largest < SCALE_SEARCH_WEIGHT_MIN ? 0 : largest / (float)grid_max(grid, bits);
    return true;
}

/* What a RoundingError counts in, in units of the scale. */
static double rounding_unit(const Search *search) {
    return grid_has_table(search->channel.grid, search->channel.bits) ? 1 : (double)grid_factor(search->channel.bits);
}

/* Error of a scale in units of w^2; keeps it when it is the best so far. Ties keep the earlier. */
static RoundingSums try_scale(Search *search, float scale, bool products, double *errorp) {
    const double unit = (double)scale * rounding_unit(search);
    RoundingSums sums;

    search->error(&search->channel, 1.0f / scale, products, &sums);
    *errorp = sums.error * unit * unit;
    if (*errorp < search->best_error) {
        search->best_error = *errorp;
        search->best_scale = scale;
    }
    return sums;
}

/*
 * From the scale of the largest weight down. The error of weights outside the grid's range only grows as the range
 * shrinks. Once it alone is more than the best error, no smaller scale can win: the walk ends without having missed
 * one. Where levels are equally far apart, a weight inside the range is at most half a distance from its level: what a
 * scale's error has beyond that for all weights is the error of those outside, at least. Other grids count it.
 */
static void walk(Search *search, double scale) {
    const bool counted = grid_has_table(search->channel.grid, search->channel.bits);

    for (int i = 0; i < WALK_MAX; i++, scale *= WALK_FACTOR) {
        const double unit = scale * rounding_unit(search), half = 0.5 * unit;
        double error, beyond;
        RoundingSums sums = try_scale(search, (float)scale, false, &error);

        beyond = counted ? sums.beyond * unit * unit : error - half * half * (double)search->channel.n;
        if (beyond >= search->best_error)
            return;
    }
}

static void refine(Search *search) {
    for (int i = 0; i < N_HALVINGS; i++) {
        const double centre = (double)search->best_scale;
        double error;

        try_scale(search, (float)(centre * halving_factors[i]), false, &error);
        try_scale(search, (float)(centre / halving_factors[i]), false, &error);
    }
}

/* For the levels that the best scale gives, the best scale is <w, level> / <level, level>; with it levels may change
 * again. Neither step can make the error larger. */
static void fit(Search *search) {
    for (int i = 0; i < N_FITS; i++) {
        const float scale = search->best_scale;
        double error;
        RoundingSums sums = try_scale(search, scale, true, &error);
        double fitted = sums.rr > 0 ? (double)scale * (sums.tr / sums.rr) : 0;

        if (fitted < (double)search->least || fitted > FLT_MAX)
            return;
        try_scale(search, (float)fitted, false, &error);
        if (search->best_scale == scale)
            return;
    }
}

static float search_run(Search *search, float largest) {
    const float scale = largest / (float)grid_max(search->channel.grid, search->channel.bits);

    if (largest < SCALE_SEARCH_WEIGHT_MIN)
        return 0;
    search->error = rounding_error_select(cpu_features());
    search->least = scale * 0x1p-20f;
    search->best_error = INFINITY;
    search->best_scale = scale;
    if (search->channel.bits > 1) {
        walk(search, (double)scale);
        refine(search);
    }
    /* One bit is the sign: the levels do not depend on the scale, and the first fit is the answer. */
    fit(search);
    return search->best_scale;
}

/**
 * scale_search() - scale of a channel by least squares
 * @w:      f32[n]
 * @grid:   what the weights will be rounded to
 * @bits:   1..8
 * @scalep: out: the scale for round_channel(); 0 for a channel of zeros
 *
 * The error as a function of the scale has many shallow local minima. A walk in steps of 2^(-1/4) from the scale of the
 * largest weight finds the valley, three halvings go down to 2 %, and two least-squares fits of the scale to the levels
 * do the rest. The error is never more than that of the scale of the largest weight; against the best of 2000 scales it
 * is 0.1 % higher up to 4 bits and 1 to 3 % at 8, where the minima are noise of the channel's own weights (mean over
 * Gaussian, Laplace and uniform channels of 1024). About 12 passes, 2 to 5 ns a weight with AVX-512. Same bits on every
 * instruction set. Thread: any; allocates nothing.
 *
 * Return: false, and nothing written, when a weight is not finite.
 */
bool scale_search(const float *w, size_t n, Grid grid, int bits, float *scalep) {
    Search search = { .channel = { .w = w, .n = n, .grid = grid, .bits = bits } };
    float largest;

    assert(bits >= GRID_BITS_MIN && bits <= GRID_BITS_MAX);
    if (!largest_weight(w, n, &largest))
        return false;
    *scalep = search_run(&search, largest);
    return true;
}
