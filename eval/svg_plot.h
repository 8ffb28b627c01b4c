// SPDX-License-Identifier: Apache-2.0
/* A scatter plot with lines as SVG 1.1: series of points over two linear or logarithmic axes. */
#ifndef COORDGEN_EVAL_SVG_PLOT_H
#define COORDGEN_EVAL_SVG_PLOT_H

#include <stddef.h>

#include "base/str_buf.h"

typedef struct SvgPoint {
    double x, y;       /* finite; above 0 on a logarithmic axis */
    const char *label; /* drawn beside it; NULL: none */
} SvgPoint;

typedef struct SvgSeries {
    const char *name;
    const SvgPoint *points; /* [n], joined in this order */
    size_t n;
} SvgSeries;

typedef struct SvgPlot {
    const char *title, *x_title, *y_title;
    const SvgSeries *series; /* [n_series] */
    size_t n_series;
    /* A dashed line across the plot at this y, with its name; level_name NULL: none. */
    double level;
    const char *level_name;
} SvgPlot;

/* Appends the document. The y axis is logarithmic when its values span more than a factor of 4. Same plot, same
 * bytes. */
void svg_plot(StrBuf *text, const SvgPlot *plot);

#endif
