// SPDX-License-Identifier: Apache-2.0
/* `plot`: draws what others have measured, so that a plot in the documents can be made again from its numbers. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "tools/eval/eval.h"
#include "tools/eval/tables/svg_plot.h"

enum {
    CSV_BYTES_MAX = 1 << 20,
    SERIES_MAX = 32,
    POINTS_MAX = 1024, /* of all series */
    GROUPS_MAX = 32,
    FIELDS_MAX = 5,
};

typedef struct CsvPlot {
    SvgPlot plot;
    SvgSeries series[SERIES_MAX]; /* what was measured, and floors */
    SvgPoint points[POINTS_MAX];
    size_t n_points;
    const char *groups[GROUPS_MAX]; /* of bars */
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

static SvgSeries *find_series(CsvPlot *csv, const char *name) {
    for (size_t i = 0; i < csv->plot.n_series; i++)
        if (!strcmp(csv->series[i].name, name))
            return &csv->series[i];
    return NULL;
}

/* Takes a bar: its series has room for one in each group, in whatever order they come. */
static const char *take_bar(CsvPlot *csv, char *fields[]) {
    SvgSeries *series = find_series(csv, fields[1]);
    size_t group = 0;
    double y;

    if (!number(fields[3], &y) || y < 0)
        return "a bar is a number, 0 or more";
    while (group < csv->plot.n_groups && strcmp(csv->groups[group], fields[2]) != 0)
        group++;
    if (group == GROUPS_MAX)
        return "there are too many groups";
    if (group == csv->plot.n_groups)
        csv->groups[csv->plot.n_groups++] = fields[2];
    if (!series && (csv->plot.n_series == SERIES_MAX || csv->n_points + GROUPS_MAX > POINTS_MAX))
        return "there are too many series";
    if (!series) {
        series = &csv->series[csv->plot.n_series++];
        *series = (SvgSeries){ .name = fields[1], .points = csv->points + csv->n_points };
        csv->n_points += GROUPS_MAX;
    }
    if (series->n == GROUPS_MAX)
        return "a series has one bar in each group";
    csv->points[series->points - csv->points + (ptrdiff_t)series->n++] = (SvgPoint){ .x = (double)group, .y = y };
    return NULL;
}

/* A row with the name and kind of the one before goes on with its series, so that rows are in the order of the line. */
static const char *take_point(CsvPlot *csv, char *fields[], const char *label, bool is_floor) {
    SvgSeries *last = csv->plot.n_series ? &csv->series[csv->plot.n_series - 1] : NULL;
    SvgPoint point = { .label = label };

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
    else if (n == 3 && !strcmp(fields[0], "level") && number(fields[2], &csv->plot.level))
        csv->plot.level_name = fields[1];
    else if (n == 4 && !strcmp(fields[0], "bar"))
        return take_bar(csv, fields);
    else if ((n == 4 || n == 5) && !strcmp(fields[0], "point"))
        return take_point(csv, fields, n == 5 ? fields[4] : NULL, false);
    else if (n == 4 && !strcmp(fields[0], "floor"))
        return take_point(csv, fields, NULL, true);
    else
        return "not one of title,TEXT  x,TEXT[,log]  y,TEXT  point,NAME,X,Y[,LABEL]  floor,NAME,X,Y  "
               "bar,NAME,GROUP,Y  level,NAME,Y";
    return NULL;
}

/* Tells whether a series has points, which lie one behind the other without room for bars. */
static bool has_points(const CsvPlot *csv) {
    return csv->n_points != csv->plot.n_series * GROUPS_MAX;
}

int eval_plot(const EvalOptions *options) {
    _cleanup_(freep) CsvPlot *csv = calloc(1, sizeof(*csv));
    _cleanup_(freep) char *text = NULL;
    _cleanup_(str_buf_deinit) StrBuf drawn = STR_BUF_NULL;
    size_t len_bytes, line_number = 0;
    char *line, *rest;
    ErrText err = { "out of memory" };

    if (!options->table.plot)
        return eval_fail(options, "--plot is missing: the .svg to write");
    if (!csv || file_slurp(options->file, CSV_BYTES_MAX, &text, &len_bytes, &err))
        return eval_fail(options, "%s", err.text);
    csv->plot.series = csv->series;
    csv->plot.groups = csv->groups;
    csv->plot.title = csv->plot.x_title = csv->plot.y_title = "";
    for (rest = text; (line = strsep(&rest, "\n"));) {
        const char *wrong = take_line(csv, line);

        line_number++;
        if (wrong)
            return eval_fail(options, "%s:%zu: %s", options->file, line_number, wrong);
    }
    if (csv->plot.n_groups && has_points(csv))
        return eval_fail(options, "%s: bars and points are of two plots: choose one", options->file);
    svg_plot(&drawn, &csv->plot);
    return svg_write(&drawn, options->table.plot, &err) ? eval_fail(options, "%s", err.text) : EVAL_OK;
}
