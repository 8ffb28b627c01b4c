// SPDX-License-Identifier: Apache-2.0
#include "engine/step/rope_rows.h"

#include "backends/numeric/rope_table.h"

/* Returns 1 + 0.1 m ln(factor), the factor by which YaRN makes queries and keys longer. */
static double yarn_length(double factor, double m) {
    return factor > 1 ? 0.1 * m * rope_log(factor) + 1 : 1;
}

/* Returns the factor of cos and sin, as llama.cpp has it: YaRN's own magnitude applies to stretched positions only, so
 * that layers whose positions are not scaled get the rest. */
static double magnitude(const HparamsRope *read, double position_scale) {
    const double factor = 1 / read->global.position_scale, m = read->yarn.log_multiplier;
    double yarn = read->yarn.magnitude;

    if (read->yarn.share > 0) {
        yarn = m > 0 ? yarn_length(factor, 1) / yarn_length(factor, m) : yarn_length(factor, 1);
        yarn *= yarn_length(1 / position_scale, 1) / yarn_length(factor, 1);
    }
    return read->magnitude * yarn;
}

void rope_rows_prepare(RopeRows *rope, const Hparams *hparams, bool local, float *const *vectors) {
    const HparamsAngles *angles = local ? &hparams->rope.local : &hparams->rope.global;
    const RopeParams params = {
        .base = angles->base,
        .position_scale = angles->position_scale,
        .divisors = local ? NULL : vectors[hparams->rope.divisors],
        .n_rot = hparams->n_rot,
    };
    const RopeYarn yarn = {
        .share = hparams->rope.yarn.share,
        .fast = hparams->rope.yarn.fast,
        .slow = hparams->rope.yarn.slow,
        .original = hparams->rope.original,
    };

    rope->magnitude = (float)magnitude(&hparams->rope, params.position_scale);
    if (yarn.share > 0)
        rope_yarn_frequencies(&params, &yarn, rope->freqs);
    else
        rope_frequencies(&params, rope->freqs);
}

static void scale_row(float *x, size_t n, float factor) {
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

void rope_rows_fill(const RopeRows *rope, size_t half, const Batch *batch, BatchRange rows) {
    for (size_t r = rows.first; r < rows.first + rows.n; r++) {
        rope_row(rope->freqs, half, batch->rows[r].position, rope->cos + r * half, rope->sin + r * half);
        if (rope->magnitude != 1) {
            scale_row(rope->cos + r * half, half, rope->magnitude);
            scale_row(rope->sin + r * half, half, rope->magnitude);
        }
    }
}
