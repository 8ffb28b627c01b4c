// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/descent.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "quant/format/grid.h"
#include "quant/rounding/hessian_product.h"

/* The channels of one piece of work, for any number of threads. */
#define CHANNELS 64
/* The columns between two products with the moments. */
#define COLUMNS HESSIAN_COLUMNS

typedef struct DescentLoop {
    const CompensateCall *call;
    unsigned int n_passes;
    float *buffers; /* f32[n_threads][2][CHANNELS][k] */
} DescentLoop;

/* A piece of work: channels [first, first + n), inputs in the factor's order. With e = w - scale q, the gradient of
 * e H e^T is 2 e H. */
typedef struct Piece {
    const CompensateCall *call;
    size_t first, n;
    float *gradient; /* f32[n][k]: e H */
    float *change;   /* f32[n][k]: the change of e that the gradient lacks */
} Piece;

static void begin_piece(const Piece *piece) {
    const CompensateCall *call = piece->call;
    size_t k = call->factor->k;

    for (size_t r = 0; r < piece->n; r++) {
        const float *w = call->w + (piece->first + r) * k;
        const int8_t *q = call->q + (piece->first + r) * k;

        for (size_t c = 0; c < k; c++) {
            uint32_t input = call->factor->order[c];

            piece->change[r * k + c] = w[input] - call->scales[piece->first + r] * (float)q[input];
        }
    }
    hessian_product(call->factor, piece->change, piece->n, piece->gradient);
}

/* Returns the step from a level to the best one, in levels. 0 if float32 cannot tell, because products of weights and
 * inputs vanish or overflow. */
static float descent_step(float gradient, float scale, float moment) {
    float divisor = scale * moment, step = divisor >= FLT_MIN ? gradient / divisor : 0;

    return isfinite(step) ? step : 0;
}

/* Descends on columns [from, to), last to first, of one channel; false: none changed. */
static bool descend_columns(const Piece *piece, size_t r, size_t from, size_t to, float square[COLUMNS][COLUMNS]) {
    const CompensateCall *call = piece->call;
    size_t k = call->factor->k, n = to - from;
    float *gradient = piece->gradient + r * k + from, *change = piece->change + r * k + from;
    int8_t *q = call->q + (piece->first + r) * k;
    float scale = call->scales[piece->first + r];
    int bits = call->bits[piece->first + r];
    const float *nearest = grid_nearest(call->grid, bits);
    bool changed = false;

    memset(change, 0, n * sizeof(*change));
    if (scale <= 0)
        return false;
    for (size_t c = n; c-- > 0;) {
        int8_t *level = &q[call->factor->order[from + c]];
        float best = grid_round(nearest, (float)*level + descent_step(gradient[c], scale, square[c][c]), bits);

        if (best == (float)*level)
            continue;
        change[c] = scale * ((float)*level - best);
        *level = (int8_t)best;
        for (size_t j = 0; j < n; j++)
            gradient[j] += change[c] * square[c][j];
        changed = true;
    }
    return changed;
}

/* Makes one pass over a piece; false: nothing changed. */
static bool descend(const Piece *piece) {
    size_t k = piece->call->factor->k;
    float square[COLUMNS][COLUMNS];
    bool any = false;

    for (size_t to = k; to; to -= to % COLUMNS ? to % COLUMNS : COLUMNS) {
        size_t from = (to - 1) / COLUMNS * COLUMNS;
        bool changed = false;

        hessian_square(piece->call->factor, from, to, square);
        for (size_t r = 0; r < piece->n; r++)
            changed = descend_columns(piece, r, from, to, square) || changed;
        if (changed)
            hessian_spread(piece->call->factor, piece->change, piece->n, from, to, piece->gradient);
        any = any || changed;
    }
    return any;
}

static double error_of(const Piece *piece, size_t r) {
    const CompensateCall *call = piece->call;
    size_t k = call->factor->k;
    const float *w = call->w + (piece->first + r) * k, *gradient = piece->gradient + r * k;
    const int8_t *q = call->q + (piece->first + r) * k;
    double sum = 0;

    for (size_t c = 0; c < k; c++) {
        uint32_t input = call->factor->order[c];

        sum += (double)(w[input] - call->scales[piece->first + r] * (float)q[input]) * (double)gradient[c];
    }
    return sum;
}

static void refine_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    const DescentLoop *loop = arg;
    const CompensateCall *call = loop->call;
    size_t k = call->factor->k;
    float *buffers = loop->buffers + worker * 2 * CHANNELS * k;

    for (size_t i = begin; i < end; i++) {
        size_t first = i * CHANNELS;
        Piece piece = { call, first, MIN(call->n - first, CHANNELS), buffers, buffers + CHANNELS * k };

        begin_piece(&piece);
        for (unsigned int pass = 0; pass < loop->n_passes && descend(&piece); pass++)
            ;
        for (size_t r = 0; call->errors && r < piece.n; r++)
            call->errors[first + r] = error_of(&piece, r);
    }
}

/**
 * descent_refine() - find better integers for the same scales
 *
 * The inputs are visited in the order of compensated rounding, those with the most energy first. For an input c with
 * all others fixed, e H e^T is least at the level nearest to q_c + (e H)_c / (scale H_cc). A change of e_c moves e H
 * by a row of H: at once for the COLUMNS inputs that are being decided, in one product for the others. Blocks without
 * a changed channel cost nothing, so later passes are cheaper.
 *
 * Return: 0 or -ENOMEM.
 */
int descent_refine(const CompensateCall *call, unsigned int n_passes, WorkerPool *pool) {
    _cleanup_(freep) float *buffers =
        malloc(worker_pool_n_threads(pool) * 2 * CHANNELS * call->factor->k * sizeof(*buffers));
    DescentLoop loop = { .call = call, .n_passes = n_passes, .buffers = buffers };

    if (!buffers)
        return -ENOMEM;
    worker_pool_run(pool, refine_pieces, &loop, (call->n + CHANNELS - 1) / CHANNELS, 1);
    return 0;
}
