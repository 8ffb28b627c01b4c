// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/compensate.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "quant/format/grid.h"
#include "quant/rounding/blas.h"

/* The channels of one piece of work, for any number of threads, and the columns between two products with the factor.
 * */
#define CHANNELS 64
#define COLUMNS 64

typedef struct CompensateLoop {
    const CompensateCall *call;
    float *buffers; /* f32[n_threads][2][CHANNELS][k] */
} CompensateLoop;

/* Rounds columns [from, to), last to first, of all channels of the piece. */
static void round_columns(const CompensateCall *call, size_t first, size_t n, size_t from, size_t to, float *t,
                          float *e, double *errors) {
    const HessianFactor *factor = call->factor;
    size_t k = factor->k;

    for (size_t r = 0; r < n; r++) {
        const float *w = call->w + (first + r) * k;
        float *target = t + r * k, *error = e + r * k, scale = call->scales[first + r];
        float inverse = scale > 0 ? 1 / scale : 0;
        int bits = call->bits[first + r];
        const float *nearest = grid_nearest(call->grid, bits);
        int8_t *q = call->q + (first + r) * k;
        double sum = 0;

        for (size_t c = to; c-- > from;) {
            const float *m = factor->m + c * k;
            uint32_t input = factor->order[c];
            /* A channel without a scale is rounded too, because 0 is no level below 8 bits. */
            float level = grid_round(nearest, scale > 0 ? target[c] * inverse : 0, bits);
            float rest = target[c] - scale * level, miss;

            q[input] = (int8_t)level;
            miss = w[input] - scale * level;
            error[c] = miss;
            sum += (double)factor->d[c] * (double)rest * (double)rest;
            for (size_t j = from; j < c; j++)
                target[j] += miss * m[j];
        }
        errors[r] += sum;
    }
}

static void round_piece(const CompensateLoop *loop, size_t first, size_t n, float *t, float *e) {
    const CompensateCall *call = loop->call;
    const HessianFactor *factor = call->factor;
    size_t k = factor->k;
    double errors[CHANNELS] = { 0 };

    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < k; c++)
            t[r * k + c] = call->w[(first + r) * k + factor->order[c]];
    for (size_t to = k; to; to -= to % COLUMNS ? to % COLUMNS : COLUMNS) {
        size_t from = (to - 1) / COLUMNS * COLUMNS;

        if (to < k)
            blas_product(&(BlasProduct){
                .m = n,
                .n = to - from,
                .k = k - to,
                .alpha = 1,
                .beta = 1,
                .a = e + to,
                .b = factor->m + to * k + from,
                .c = t + from,
                .a_stride = k,
                .b_stride = k,
                .c_stride = k,
            });
        round_columns(call, first, n, from, to, t, e, errors);
    }
    if (call->errors)
        memcpy(call->errors + first, errors, n * sizeof(*errors));
}

static void round_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    const CompensateLoop *loop = arg;
    size_t k = loop->call->factor->k, n = loop->call->n;
    float *t = loop->buffers + worker * 2 * CHANNELS * k, *e = t + CHANNELS * k;

    for (size_t piece = begin; piece < end; piece++) {
        size_t first = piece * CHANNELS;

        round_piece(loop, first, MIN(n - first, CHANNELS), t, e);
    }
}

int compensate_round(const CompensateCall *call, WorkerPool *pool) {
    _cleanup_(freep) float *buffers =
        malloc(worker_pool_n_threads(pool) * 2 * CHANNELS * call->factor->k * sizeof(*buffers));
    CompensateLoop loop = { .call = call, .buffers = buffers };

    if (!buffers)
        return -ENOMEM;
    worker_pool_run(pool, round_pieces, &loop, (call->n + CHANNELS - 1) / CHANNELS, 1);
    return 0;
}
