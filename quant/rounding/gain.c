// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/gain.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "quant/rounding/hessian_product.h"

/* Channels of one piece of work, whatever the number of threads. */
#define CHANNELS 64

typedef struct GainLoop {
    const CompensateCall *call;
    float *buffers; /* f32[n_threads][2][CHANNELS][k] */
} GainLoop;

/* w: the channel by position; moments: w H. The scale as it was where there is nothing to go by. */
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
        const size_t first = piece * CHANNELS, n = call->n - first < CHANNELS ? call->n - first : CHANNELS;

        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < k; c++)
                w[r * k + c] = call->w[(first + r) * k + call->factor->order[c]];
        hessian_product(call->factor, w, n, moments);
        for (size_t r = 0; r < n; r++)
            call->scales[first + r] = corrected(call, first + r, w + r * k, moments + r * k);
    }
}

/**
 * gain_correct() - s becomes s (w H w) / (s q H w)
 * @call: q and scales are there, and scales change; errors is not looked at
 *
 * Integers and scales of least squares leave an error at right angles to the rounded channel, not to the channel: by as
 * much as it is of the channel's energy, outputs are smaller. Of one product that is 0.1 to 1 % at 4 bits, and best for
 * it; but of many layers errors add up in squares, and what they take from the size adds up as it is. With this the
 * regression of rounded outputs on the true ones has the slope 1, and the error is larger by about that part of itself.
 * A channel without scale, energy or likeness (a gain beyond GAIN_MAX) keeps its scale. Per channel, by its own
 * integers alone; sums in float64 in one order.
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
