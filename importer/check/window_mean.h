// SPDX-License-Identifier: Apache-2.0
/* The mean of a text's windows and its standard error. Rows of one window depend on each other, windows hardly do. */
#ifndef COORDGEN_IMPORTER_WINDOW_MEAN_H
#define COORDGEN_IMPORTER_WINDOW_MEAN_H

#include <math.h>
#include <stddef.h>

/* Sum and sum of squares of the windows' means. */
typedef struct WindowMean {
    double sum, squares;
} WindowMean;

static inline void window_mean_add(WindowMean *mean, double value) {
    mean->sum += value;
    mean->squares += value * value;
}

/* Returns the standard error of the mean of n windows; NaN for one window. */
static inline double window_mean_error(const WindowMean *mean, size_t n) {
    double average = mean->sum / (double)n;

    return n < 2 ? NAN : sqrt(fmax(0, mean->squares / (double)n - average * average) / (double)(n - 1));
}

#endif
