// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/gain.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "quant/rounding/hessian_product.h"

/* The channels of one piece of work, for any number of threads. */
#define CHANNELS 64

typedef struct GainLoop {
    const CompensateCall *call;
    float *buffers; /* f32[n_threads][2][CHANNELS][k] */
} GainLoop;

/* Returns the corrected scale of a channel, or its old scale if nothing can be computed. w: the channel in the
 * factor's order; moments: w H. */
static float corrected(const CompensateCall *call, size_t channel, const float *w, const float *moments) {
    const HessianFactor *factor = call->factor;
    const int8_t *q = call->q + channel * factor->k;
    const float scale = call->scales[channel];
    double target = 0, rounded = 0, gain;

    for (size_t c = 0; c < factor->k; c++) {
        target += (double)w[c] * (double)moments[c];
        rounded += (double)scale * (double)q[factor->order[c]] * (double)moments[c];
    }
    gain = rounded > 0 ? target / rounded : 0;
    if (!(gain >= 1 / (double)GAIN_MAX && gain <= (double)GAIN_MAX))
        return scale;
    return (float)((double)scale * gain);
}

static void correct_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    const GainLoop *loop = arg;
    const CompensateCall *call = loop->call;
    const size_t k = call->factor->k;
    float *w = loop->buffers + worker * 2 * CHANNELS * k, *moments = w + CHANNELS * k;

    for (size_t piece = begin; piece < end; piece++) {
        const size_t first = piece * CHANNELS, n = MIN(call->n - first, CHANNELS);

        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < k; c++)
                w[r * k + c] = call->w[(first + r) * k + call->factor->order[c]];
        hessian_product(call->factor, w, n, moments);
        for (size_t r = 0; r < n; r++)
            call->scales[first + r] = corrected(call, first + r, w + r * k, moments + r * k);
    }
}

/**
 * gain_correct() - replace each scale s by s (w H w) / (s q H w)
 * @call: has q and scales; scales change; errors is not read
 *
 * Least squares leave an error orthogonal to the rounded channel, not to the channel itself: outputs shrink by the
 * error's part of the channel's energy, 0.1 to 1 % at 4 bits. For one product this is best. Over many layers, however,
 * errors add up in squares and losses of size add up linearly. With gain correction, the regression of rounded outputs
 * on true ones has slope 1, and the error grows by about that part of itself. A channel without scale or energy, or
 * with a gain beyond GAIN_MAX, keeps its scale. Each channel depends on its own integers only; sums are in float64 in
 * one order.
 */
int gain_correct(const CompensateCall *call, WorkerPool *pool) {
    _cleanup_(freep) float *buffers =
        malloc(worker_pool_n_threads(pool) * 2 * CHANNELS * call->factor->k * sizeof(*buffers));
    GainLoop loop = { .call = call, .buffers = buffers };

    if (!buffers)
        return -ENOMEM;
    worker_pool_run(pool, correct_pieces, &loop, (call->n + CHANNELS - 1) / CHANNELS, 1);
    return 0;
}
