// SPDX-License-Identifier: Apache-2.0
/* Compares a perplexity with golden values, window by window. */
#ifndef COORDGEN_EVAL_PERPLEXITY_GOLDEN_H
#define COORDGEN_EVAL_PERPLEXITY_GOLDEN_H

#include "base/err.h"
#include "tools/eval/quality/perplexity.h"

/* Relative differences of perplexity from golden values. */
typedef struct GoldenDeviation {
    double overall;        /* over all windows that both have */
    double standard_error; /* of `overall`, from the differences of the windows; 0: there is one window */
    double worst;          /* greatest difference of a single window */
    char where[160];       /* names that window */
} GoldenDeviation;

/* Compares with "window_mean_nll" of a file of golden values, from the start of the text. name: of an entry of the
 * file; NULL: the file is the entry. Return: 0 or -EINVAL, with a text. */
int golden_deviation(const Perplexity *run, const char *path, const char *name, GoldenDeviation *deviation,
                     ErrText *err);
/* Returns how far `overall` may be from 0. is_exact: the device computes as the golden values were computed, so that
 * windows have no differences of chance; otherwise two standard errors are added. */
double golden_deviation_limit(const GoldenDeviation *deviation, double tolerance, bool is_exact);
/* Returns whether `overall` is within its limit, and with is_exact each window, too. */
bool golden_deviation_is_within(const GoldenDeviation *deviation, double tolerance, bool is_exact);

#endif
