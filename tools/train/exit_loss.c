// SPDX-License-Identifier: Apache-2.0
#include "tools/train/exit_loss.h"

#include <math.h>
#include <string.h>

#include "base/min_max.h"

/* Returns the mean that the norm subtracts from every value. */
static double mean_of(const ExitHead *head, const float *y) {
    double sum = 0;

    for (size_t i = 0; head->norm_bias && i < head->n_embd; i++)
        sum += (double)y[i];
    return sum / (double)head->n_embd;
}

/* Returns 1 / sqrt(mean square + eps) of the values less the mean. */
static double scale_of(const ExitHead *head, const float *y, double mean) {
    double squares = 0;

    for (size_t i = 0; i < head->n_embd; i++)
        squares += ((double)y[i] - mean) * ((double)y[i] - mean);
    return 1 / sqrt(squares / (double)head->n_embd + (double)head->eps);
}

/* Returns what the biases of norm and head add to a token's logit; @row is the token's row of the head. */
static float of_biases(const ExitHead *head, uint32_t token, const float *row) {
    double sum = head->bias ? (double)head->bias[token] : 0;

    for (size_t i = 0; head->norm_bias && i < head->n_embd; i++)
        sum += (double)head->norm_bias[i] * (double)row[i];
    return (float)sum;
}

void exit_logits(const ExitHead *head, const float *y, const ExitSample *sample, const float *rows, float *logits) {
    const double mean = mean_of(head, y);
    const float scale = (float)scale_of(head, y, mean), off = (float)mean;

    for (uint32_t c = 0; c < sample->n; c++) {
        const float *row = rows + c * head->n_embd;
        float sums[16] = { 0 }, sum = 0;
        size_t i = 0;

        for (; i + 16 <= head->n_embd; i += 16)
            for (size_t lane = 0; lane < 16; lane++)
                sums[lane] += (y[i + lane] - off) * head->norm[i + lane] * row[i + lane];
        for (; i < head->n_embd; i++)
            sums[0] += (y[i] - off) * head->norm[i] * row[i];
        for (size_t lane = 0; lane < 16; lane++)
            sum += sums[lane];
        logits[c] = scale * sum;
        if (head->norm_bias || head->bias)
            logits[c] += of_biases(head, sample->tokens[c], row);
        if (head->logit_cap > 0)
            logits[c] = head->logit_cap * tanhf(logits[c] / head->logit_cap);
    }
}

/**
 * exit_loss() - see the header
 *
 * Let u = y, or y - mean(y) if the norm subtracts the mean; z = scale u norm (+ a bias); scale = 1 / sqrt(mean(u^2) +
 * eps); g = dL/dz norm. Then dL/dy = scale g - scale^3 u (g u) / n_embd, less the mean of scale g if the norm subtracts
 * the mean.
 */
double exit_loss(const ExitHead *head, const float *y, const ExitSample *sample, const float *rows, float *gradient) {
    const size_t n_embd = head->n_embd;
    const double mean = mean_of(head, y), scale = scale_of(head, y, mean);
    float logits[EXIT_CHOICES];
    double weights[EXIT_CHOICES], slopes[EXIT_CHOICES], most, sum = 0, total = 0, loss = 0, along = 0, off = 0;

    if (gradient)
        memset(gradient, 0, n_embd * sizeof(*gradient));
    if (sample->n < 2)
        return 0;
    exit_logits(head, y, sample, rows, logits);
    most = (double)logits[0];
    for (uint32_t c = 0; c < sample->n; c++) {
        most = MAX((double)logits[c], most);
        weights[c] = (double)sample->p[c] + (sample->tokens[c] == sample->best);
        total += weights[c];
    }
    for (uint32_t c = 0; c < sample->n; c++)
        sum += exp((double)logits[c] - most);
    for (uint32_t c = 0; c < sample->n; c++) {
        const double log_share = (double)logits[c] - most - log(sum);

        loss -= weights[c] * log_share;
        slopes[c] = total * exp(log_share) - weights[c];
        if (head->logit_cap > 0) {
            const double t = (double)logits[c] / (double)head->logit_cap;

            slopes[c] *= 1 - t * t;
        }
    }
    if (!gradient)
        return loss;
    for (uint32_t c = 0; c < sample->n; c++)
        for (size_t i = 0; i < n_embd; i++)
            gradient[i] += (float)slopes[c] * rows[c * n_embd + i] * head->norm[i];
    for (size_t i = 0; i < n_embd; i++) {
        along += (double)gradient[i] * ((double)y[i] - mean);
        off += head->norm_bias ? (double)gradient[i] / (double)n_embd : 0;
    }
    along *= scale * scale * scale / (double)n_embd;
    for (size_t i = 0; i < n_embd; i++)
        gradient[i] = (float)(scale * ((double)gradient[i] - off) - along * ((double)y[i] - mean));
    return loss;
}
