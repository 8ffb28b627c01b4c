// SPDX-License-Identifier: Apache-2.0
/* The numbers of a plot, as CSV that tools/plot draws. Names and titles may be any text. */
#ifndef COORDGEN_EVAL_PLOT_NUMBERS_H
#define COORDGEN_EVAL_PLOT_NUMBERS_H

#include <stdbool.h>

#include "base/strings/str_buf.h"

/* Appends title and axes; x NULL: the plot has groups of bars. */
void plot_numbers_begin(StrBuf *text, const char *title, const char *x, bool is_x_logarithmic, const char *y);
/* Appends a line across the plot. */
void plot_numbers_level(StrBuf *text, const char *name, double y);
/* Appends a point of a series; label NULL: none. */
void plot_numbers_point(StrBuf *text, const char *series, double x, double y, const char *label);
/* Appends the bar of a series in a group. */
void plot_numbers_bar(StrBuf *text, const char *series, const char *group, double y);

#endif
