// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/quality/perplexity_golden.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "base/min_max.h"

/* Standard errors that the mean of the windows may be off by chance. */
#define STANDARD_ERRORS 2

/* Fills the deviation from differences of mean losses: sums over n windows, and the worst one. */
static void summarise(const Perplexity *run, const json_t *means, size_t n, GoldenDeviation *deviation) {
    double sum = 0, squares = 0, mean;

    *deviation = (GoldenDeviation){ .worst = 0 };
    for (size_t i = 0; i < n; i++) {
        const double golden = json_number_value(json_array_get(means, i)), difference = run->means[i] - golden;

        sum += difference;
        if (fabs(expm1(difference)) > fabs(deviation->worst)) {
            deviation->worst = expm1(difference);
            snprintf(deviation->where, sizeof(deviation->where), "window %zu: mean nll %.5f, golden %.5f", i,
                     run->means[i], golden);
        }
    }
    mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += pow(run->means[i] - json_number_value(json_array_get(means, i)) - mean, 2);
    deviation->overall = expm1(mean);
    deviation->standard_error = n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : 0;
}

int golden_deviation(const Perplexity *run, const char *path, const char *name, GoldenDeviation *deviation,
                     ErrText *err) {
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error), *entry = root && name ? json_object_get(root, name) : root,
           *means = json_object_get(entry, "window_mean_nll");
    const size_t n = MIN(json_array_size(means), run->n_windows);
    const bool fits = n && (size_t)json_integer_value(json_object_get(entry, "window")) == run->window;

    if (fits)
        summarise(run, means, n, deviation);
    else
        err_set(err, -EINVAL, "%s: no entry '%s' with windows of %zu tokens (--name NAME)%s%s", path, name ? name : "",
                run->window, root ? "" : ": ", root ? "" : error.text);
    json_decref(root);
    return fits ? 0 : -EINVAL;
}

double golden_deviation_limit(const GoldenDeviation *deviation, double tolerance, bool is_exact) {
    return is_exact ? tolerance : tolerance + STANDARD_ERRORS * deviation->standard_error;
}

bool golden_deviation_is_within(const GoldenDeviation *deviation, double tolerance, bool is_exact) {
    const double limit = golden_deviation_limit(deviation, tolerance, is_exact);

    /* A NaN is outside, too. */
    return fabs(deviation->overall) <= limit && (!is_exact || fabs(deviation->worst) <= limit);
}
