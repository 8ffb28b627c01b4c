// SPDX-License-Identifier: Apache-2.0
/* Plots as SVG 1.1: series of points with lines over two linear or logarithmic axes, or groups of bars. */
#ifndef COORDGEN_EVAL_SVG_PLOT_H
#define COORDGEN_EVAL_SVG_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/strings/str_buf.h"

typedef struct SvgPoint {
    double x, y;       /* finite; above 0 on a logarithmic axis */
    const char *label; /* drawn beside it; NULL: none */
} SvgPoint;

typedef struct SvgSeries {
    const char *name;
    const SvgPoint *points; /* [n], joined in this order */
    size_t n;
    bool is_floor; /* what the machine could do: a dashed line, of the colour of the series of the same name */
} SvgSeries;

typedef struct SvgPlot {
    const char *title, *x_title, *y_title;
    const SvgSeries *series; /* [n_series] */
    size_t n_series;
    bool x_logarithmic;
    /* Names of groups, [n_groups], whose bars stand side by side, one a series; a point's x is the number of its group.
     * 0 groups: points and lines. */
    const char *const *groups;
    size_t n_groups;
    /* A dashed line across the plot at this y, with its name; level_name NULL: none. */
    double level;
    const char *level_name;
} SvgPlot;

/* Appends the document. Bars begin at 0; for points the y axis is logarithmic where its values span more than a factor
 * of 4. Same plot, same bytes. */
void svg_plot(StrBuf *text, const SvgPlot *plot);
/* The document as a file, whole or not at all. 0, -errno with a text. */
int svg_write(const StrBuf *text, const char *path, ErrText *err);

#endif
