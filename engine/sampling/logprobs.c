// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/logprobs.h"

#include "backends/numeric/exp_row.h"
#include "backends/numeric/rope_table.h"
#include "backends/numeric/top_row.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

enum {
    PARTS = 16,  /* partial sums */
    BLOCK = 512, /* exponentials that are computed at once; a multiple of PARTS */
};

/* Returns the sum of exp(logit - max): each exponential in float32, then PARTS partial sums in float64 by index modulo
 * PARTS, then one tree over them. */
static double mass_of(const float *logits, size_t n_vocab, float max) {
    const ExpRow *row = exp_row_select(cpu_features());
    double parts[PARTS] = { 0 };
    float weights[BLOCK];

    for (size_t first = 0; first < n_vocab; first += BLOCK) {
        const size_t n = MIN(n_vocab - first, BLOCK);

        for (size_t i = 0; i < n; i++)
            weights[i] = logits[first + i] - max;
        row->exp(weights, n, weights);
        for (size_t i = n; i % PARTS; i++)
            weights[i] = 0;
        for (size_t i = 0; i < n; i += PARTS)
            for (size_t j = 0; j < PARTS; j++)
                parts[j] += (double)weights[i + j];
    }
    for (size_t half = PARTS / 2; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            parts[j] += parts[j + half];
    return parts[0];
}

void logprobs_compute(const float *logits, size_t n_vocab, uint32_t chosen, uint32_t n_top, TokenLogprobs *result) {
    uint32_t tokens[LOGPROBS_TOP_MAX] = { 0 };
    float values[LOGPROBS_TOP_MAX] = { 0 };
    /* The greatest logit is wanted in any case. */
    const size_t n = top_row_select(cpu_features())->top(logits, n_vocab, 0, MAX(n_top, 1), 0, tokens, values);
    const double log_mass = rope_log(mass_of(logits, n_vocab, values[0]));

    result->chosen = (Logprob){ chosen, (float)((double)logits[chosen] - (double)values[0] - log_mass) };
    result->n_top = MIN((uint32_t)n, n_top);
    for (uint32_t i = 0; i < result->n_top; i++)
        result->top[i] = (Logprob){ tokens[i], (float)((double)values[i] - (double)values[0] - log_mass) };
}
