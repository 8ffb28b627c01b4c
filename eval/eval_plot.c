// SPDX-License-Identifier: Apache-2.0
/* `plot`: draws what others have measured, so that a plot in the documents can be made again from its numbers. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_io.h"
#include "eval/eval.h"
#include "eval/svg_plot.h"

enum {
    CSV_BYTES_MAX = 1 << 20,
    SERIES_MAX = 32,
    POINTS_MAX = 1024, /* of all series */
    FIELDS_MAX = 4,
};

typedef struct CsvPlot {
    SvgPlot plot;
    SvgSeries series[SERIES_MAX]; /* what was measured, and floors */
    SvgPoint points[POINTS_MAX];
    size_t n_points;
} CsvPlot;

static size_t split(char *line, char *fields[FIELDS_MAX + 1]) {
    size_t n = 0;
    char *field;

    while (n <= FIELDS_MAX && (field = strsep(&line, ",")))
        fields[n++] = field;
    return n;
}

static bool number(const char *text, double *valuep) {
    char *end;

    *valuep = strtod(text, &end);
    return end != text && !*end && isfinite(*valuep);
}

/* A row with the name and kind of the one before goes on with its series, so that rows are in the order of the line. */
static const char *take_point(CsvPlot *csv, char *fields[], bool is_floor) {
    SvgSeries *last = csv->plot.n_series ? &csv->series[csv->plot.n_series - 1] : NULL;
    SvgPoint point = { 0 };

    if (!number(fields[2], &point.x) || !number(fields[3], &point.y))
        return "x and y are numbers";
    if (csv->plot.x_logarithmic && point.x <= 0)
        return "on a logarithmic axis numbers are above 0";
    if (csv->n_points == POINTS_MAX)
        return "there are too many points";
    if (!last || strcmp(last->name, fields[1]) || last->is_floor != is_floor) {
        if (csv->plot.n_series == SERIES_MAX)
            return "there are too many series";
        last = &csv->series[csv->plot.n_series++];
        *last = (SvgSeries){ .name = fields[1], .points = csv->points + csv->n_points, .is_floor = is_floor };
    }
    csv->points[csv->n_points++] = point;
    last->n++;
    return NULL;
}

/* What is wrong with the line, or NULL. */
static const char *take_line(CsvPlot *csv, char *line) {
    char *fields[FIELDS_MAX + 1];
    size_t n;

    if (!*line || *line == '#')
        return NULL;
    if (!strncmp(line, "title,", strlen("title,"))) { /* which may have commas */
        csv->plot.title = line + strlen("title,");
        return NULL;
    }
    n = split(line, fields);
    if ((n == 2 || (n == 3 && !strcmp(fields[2], "log"))) && !strcmp(fields[0], "x")) {
        csv->plot.x_title = fields[1];
        csv->plot.x_logarithmic = n == 3;
    } else if (n == 2 && !strcmp(fields[0], "y"))
        csv->plot.y_title = fields[1];
    else if (n == 4 && (!strcmp(fields[0], "point") || !strcmp(fields[0], "floor")))
        return take_point(csv, fields, *fields[0] == 'f');
    else
        return "not one of title,TEXT  x,TEXT[,log]  y,TEXT  point,NAME,X,Y  floor,NAME,X,Y";
    return NULL;
}

int eval_plot(const EvalOptions *options) {
    _cleanup_(freep) CsvPlot *csv = calloc(1, sizeof(*csv));
    _cleanup_(freep) char *text = NULL;
    _cleanup_(str_buf_deinit) StrBuf drawn = STR_BUF_NULL;
    size_t len_bytes, line_number = 0;
    char *line, *rest;
    ErrText err = { "out of memory" };

    if (!options->plot)
        return eval_fail(options, "--plot is missing: the .svg to write");
    if (!csv || file_slurp(options->file, CSV_BYTES_MAX, &text, &len_bytes, &err))
        return eval_fail(options, "%s", err.text);
    csv->plot.series = csv->series;
    csv->plot.title = csv->plot.x_title = csv->plot.y_title = "";
    for (rest = text; (line = strsep(&rest, "\n"));) {
        const char *wrong = take_line(csv, line);

        line_number++;
        if (wrong)
            return eval_fail(options, "%s:%zu: %s", options->file, line_number, wrong);
    }
    svg_plot(&drawn, &csv->plot);
    return svg_write(&drawn, options->plot, &err) ? eval_fail(options, "%s", err.text) : EVAL_OK;
}
