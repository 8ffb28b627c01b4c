// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/tables/svg_plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/files/file_io.h"

#define HEIGHT 480
#define LEFT 80
#define RIGHT 570      /* of the axes; the legend comes after it */
#define LEGEND_MIN 190 /* its width */
#define LEGEND_TEXT 26 /* where its names begin */
#define CHARACTER 7    /* the width of most, and of all on the average */
#define TOP 50
#define TITLE_CHARACTER 8.2 /* of the larger letters */
#define TITLE_LINE 18
#define TITLE_BYTES_MAX 511 /* of its first line */
#define BOTTOM 60
#define LOG_FROM 4.0
#define TICKS 6
#define X_TICKS_MAX 10
#define LABELS_MAX 256
#define LABEL_STEPS 12 /* places that are tried on either side of a point */
#define LABEL_LINE 12
#define LABEL_CHARACTER 6.2
#define BARS_SHARE 0.8 /* of the room between two groups */
#define FLOOR_NAME "what the machine could do"

/* Okabe and Ito's colours, told apart with every kind of colour vision. */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000" };

/* Marks around the origin; where there are no more colours the next shape begins. The first one is a circle. */
static const struct {
    size_t n;
    double corners[4][2];
} shapes[] = {
    { 0 },
    { 4, { { -3.2, -3.2 }, { 3.2, -3.2 }, { 3.2, 3.2 }, { -3.2, 3.2 } } },
    { 3, { { 0, -4.5 }, { 4, 3 }, { -4, 3 } } },
    { 4, { { 0, -4.5 }, { 4.5, 0 }, { 0, 4.5 }, { -4.5, 0 } } },
};

typedef struct Axis {
    double low, high; /* of the values that are shown */
    bool logarithmic;
    bool starts_at_0; /* no room is left below */
    double from, to;  /* pixels of low and high */
} Axis;

static void put_text(StrBuf *text, double x, double y, const char *anchor, const char *attributes, const char *what) {
    str_buf_addf(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, attributes);
    str_buf_add_xml(text, what);
    str_buf_add(text, "</text>\n");
}

static void put_mark(StrBuf *text, double x, double y, size_t series) {
    const size_t shape = series / ARRAY_LEN(colours) % ARRAY_LEN(shapes);

    if (shapes[shape].n)
        str_buf_add(text, "<polygon points=\"");
    else
        str_buf_addf(text, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5", x, y);
    for (size_t i = 0; i < shapes[shape].n; i++)
        str_buf_addf(text, "%s%.1f,%.1f", i ? " " : "", x + shapes[shape].corners[i][0],
                     y + shapes[shape].corners[i][1]);
    str_buf_addf(text, "\" fill=\"%s\"/>\n", colours[series % ARRAY_LEN(colours)]);
}

static double place(const Axis *axis, double value) {
    double share = axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                                     : (value - axis->low) / (axis->high - axis->low);

    return axis->from + share * (axis->to - axis->from);
}

static void axis_take_in(Axis *axis, double value) {
    axis->low = value < axis->low ? value : axis->low;
    axis->high = value > axis->high ? value : axis->high;
}

/* 1, 2 or 5 times a power of ten: a step that gives about TICKS of them. */
static double axis_step(double span) {
    double power = pow(10, floor(log10(span / TICKS))), share = span / TICKS / power;

    return power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
}

/* Room around the values, out to whole steps on a linear axis. */
static void axis_settle(Axis *axis, bool may_be_logarithmic) {
    double margin, step;

    if (!(axis->low <= axis->high)) /* no value at all */
        axis->low = axis->high = 1;
    axis->logarithmic = may_be_logarithmic && axis->low > 0 && axis->high > LOG_FROM * axis->low;
    if (axis->logarithmic) {
        axis->low /= 1.1;
        axis->high *= 1.1;
        return;
    }
    /* Values that differ by rounding alone are one: steps between them would be lost in it, and never end. */
    margin = axis->high - axis->low > 1e-9 * fabs(axis->high) ? 0.05 * (axis->high - axis->low)
                                                              : 0.05 * fabs(axis->high) + 1e-6;
    step = axis_step(axis->high - axis->low + 2 * margin);
    axis->low = axis->low == 0 && axis->starts_at_0 ? 0 : floor((axis->low - margin) / step) * step;
    axis->high = ceil((axis->high + margin) / step) * step;
}

static void put_tick(StrBuf *text, const Axis *axis, bool horizontal, double value) {
    double at = place(axis, value);
    char number[32];

    snprintf(number, sizeof(number), "%.6g", value);
    if (horizontal) {
        str_buf_addf(text, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#ddd\"/>\n", at, TOP, at,
                     HEIGHT - BOTTOM);
        put_text(text, at, HEIGHT - BOTTOM + 18, "middle", "", number);
    } else {
        str_buf_addf(text, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", LEFT, at, RIGHT,
                     at);
        put_text(text, LEFT - 8, at + 4, "end", "", number);
    }
}

static void put_axis(StrBuf *text, const Axis *axis, bool horizontal) {
    static const double digits[] = { 1, 1.5, 2, 3, 5, 7 };
    double step = axis_step(axis->high - axis->low);

    if (axis->logarithmic) {
        for (double power = pow(10, floor(log10(axis->low))); power <= axis->high; power *= 10)
            for (size_t i = 0; i < ARRAY_LEN(digits); i++)
                if (power * digits[i] >= axis->low && power * digits[i] <= axis->high)
                    put_tick(text, axis, horizontal, power * digits[i]);
        return;
    }
    for (double i = ceil(axis->low / step - 1e-9); i * step <= axis->high + 1e-9 * step; i++)
        put_tick(text, axis, horizontal, i == 0 ? 0 : i * step);
}

/* Which colour and mark: floors have those of what they are the floor of. */
static size_t style_of(const SvgPlot *plot, size_t index) {
    size_t style = 0;

    for (size_t i = 0; i < plot->n_series; i++) {
        if (i == index || (plot->series[index].is_floor && !plot->series[i].is_floor &&
                           !strcmp(plot->series[i].name, plot->series[index].name)))
            return style;
        style += !plot->series[i].is_floor;
    }
    return style;
}

/* On a logarithmic x axis: where points are, which are mostly doublings. */
static void put_x_ticks(StrBuf *text, const SvgPlot *plot, const Axis *x) {
    double shown[X_TICKS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < plot->n_series; i++)
        for (size_t j = 0; j < plot->series[i].n; j++) {
            size_t at = 0;

            while (at < n && shown[at] != plot->series[i].points[j].x)
                at++;
            if (at < n)
                continue;
            if (n == X_TICKS_MAX) {
                put_axis(text, x, true);
                return;
            }
            shown[n++] = plot->series[i].points[j].x;
        }
    for (size_t i = 0; i < n; i++)
        put_tick(text, x, true, shown[i]);
}

/* The parts of the picture that labels of points have taken. */
typedef struct Label {
    double left, top, right, bottom;
} Label;

typedef struct Labels {
    Label taken[LABELS_MAX];
    size_t n;
} Labels;

static double overlap(const Labels *labels, const Label *label) {
    double area = 0;

    for (size_t i = 0; i < labels->n; i++) {
        const Label *other = &labels->taken[i];
        const double width = fmin(label->right, other->right) - fmax(label->left, other->left),
                     height = fmin(label->bottom, other->bottom) - fmax(label->top, other->top);

        area += width > 0 && height > 0 ? width * height : 0;
    }
    return area;
}

/* Puts a point's label where it lies least on earlier ones: right of it, left of it, then further up and down. */
static void put_label(StrBuf *text, Labels *labels, double x, double y, const char *what) {
    const double width = (double)strlen(what) * LABEL_CHARACTER;
    Label best = { 0 };
    double least = INFINITY;

    for (size_t i = 0; i < 2 * LABEL_STEPS && least > 0; i++) {
        const bool is_left = i % 2;
        const double step = (double)(i / 2 + 1) / 2, up = (i / 2 % 2 ? 1 : -1) * floor(step) * LABEL_LINE;
        const double left = is_left ? x - 6 - width : x + 6, base = y - 6 + up;
        const Label label = { left, base - LABEL_LINE + 3, left + width, base + 3 };
        const double area = overlap(labels, &label);

        if (area < least) {
            least = area;
            best = label;
        }
    }
    if (labels->n < LABELS_MAX)
        labels->taken[labels->n++] = best;
    put_text(text, best.left, best.bottom - 3, "start", " font-size=\"11\"", what);
}

/* Draws the bars of a series beside those of the others, each group around its place on the axis. */
static void put_bars(StrBuf *text, const SvgPlot *plot, size_t index, const Axis *x, const Axis *y) {
    const SvgSeries *series = &plot->series[index];
    const double room = (place(x, 1) - place(x, 0)) * BARS_SHARE, width = room / (double)plot->n_series;

    for (size_t i = 0; i < series->n; i++) {
        const double left = place(x, series->points[i].x) - room / 2 + width * (double)index,
                     top = place(y, series->points[i].y), bottom = place(y, 0);

        str_buf_addf(text, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", left, top,
                     width, bottom - top, colours[style_of(plot, index) % ARRAY_LEN(colours)]);
    }
}

static void put_group_names(StrBuf *text, const SvgPlot *plot, const Axis *x) {
    for (size_t i = 0; i < plot->n_groups; i++)
        put_text(text, place(x, (double)i), HEIGHT - BOTTOM + 18, "middle", "", plot->groups[i]);
}

static void put_series(StrBuf *text, Labels *labels, const SvgPlot *plot, size_t index, const Axis *x, const Axis *y) {
    const SvgSeries *series = &plot->series[index];
    const size_t style = style_of(plot, index);

    if (series->n > 1) {
        str_buf_addf(text, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"%s points=\"",
                     colours[style % ARRAY_LEN(colours)], series->is_floor ? " stroke-dasharray=\"6 4\"" : "");
        for (size_t i = 0; i < series->n; i++)
            str_buf_addf(text, "%s%.1f,%.1f", i ? " " : "", place(x, series->points[i].x),
                         place(y, series->points[i].y));
        str_buf_add(text, "\"/>\n");
    }
    for (size_t i = 0; i < series->n && !(series->is_floor && series->n > 1); i++) {
        double at_x = place(x, series->points[i].x), at_y = place(y, series->points[i].y);

        put_mark(text, at_x, at_y, style);
        if (series->points[i].label)
            put_label(text, labels, at_x, at_y, series->points[i].label);
    }
}

/* A dashed line stands for all floors of the key. */
static bool has_floor(const SvgPlot *plot) {
    for (size_t i = 0; i < plot->n_series; i++)
        if (plot->series[i].is_floor && plot->series[i].n)
            return true;
    return false;
}

static void put_key(StrBuf *text, const SvgPlot *plot) {
    double at = TOP + 10;

    for (size_t i = 0; i < plot->n_series; i++) {
        if (!plot->series[i].n || plot->series[i].is_floor)
            continue;
        put_mark(text, RIGHT + 16, at, style_of(plot, i));
        put_text(text, RIGHT + LEGEND_TEXT, at + 4, "start", "", plot->series[i].name);
        at += 18;
    }
    if (!has_floor(plot))
        return;
    str_buf_addf(text,
                 "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"black\" stroke-dasharray=\"6 4\"/>\n",
                 RIGHT + 4, at, RIGHT + 22, at);
    put_text(text, RIGHT + LEGEND_TEXT, at + 4, "start", "", FLOOR_NAME);
}

/* Wide enough for every name: what is beyond a picture's edge is not shown. */
static int legend_width(const SvgPlot *plot) {
    size_t longest = has_floor(plot) ? strlen(FLOOR_NAME) : 0;

    for (size_t i = 0; i < plot->n_series; i++) {
        size_t n = plot->series[i].n ? strlen(plot->series[i].name) : 0;

        longest = n > longest ? n : longest;
    }
    return LEGEND_TEXT + (int)longest * CHARACTER > LEGEND_MIN ? LEGEND_TEXT + (int)longest * CHARACTER : LEGEND_MIN;
}

/* Where a title that is wider than the picture is broken in two: the last space of what fits; 0: it is not. */
static size_t title_break(const char *title, int width) {
    size_t most = (size_t)((width - LEFT) / TITLE_CHARACTER), at;

    most = most < TITLE_BYTES_MAX ? most : TITLE_BYTES_MAX;
    if (strlen(title) <= most)
        return 0;
    for (at = most; at && title[at] != ' '; at--) {}
    return at;
}

static void put_title(StrBuf *text, const char *title, int width) {
    const size_t first = title_break(title, width);
    char line[TITLE_BYTES_MAX + 1];

    if (first) {
        snprintf(line, sizeof(line), "%.*s", (int)first, title);
        put_text(text, LEFT, TOP - 14 - TITLE_LINE, "start", " font-size=\"15\"", line);
        put_text(text, LEFT, TOP - 14, "start", " font-size=\"15\"", title + first + 1);
        return;
    }
    put_text(text, LEFT, TOP - 20, "start", " font-size=\"15\"", title);
}

/**
 * svg_plot() - write a plot
 * @text: the document is appended; str_buf_failed() tells of a lack of memory
 *
 * Text is taken as UTF-8 and escaped; numbers are written in the C locale, which the program runs in.
 */
void svg_plot(StrBuf *text, const SvgPlot *plot) {
    Axis x = { .low = INFINITY, .high = -INFINITY, .from = LEFT, .to = RIGHT };
    Axis y = { .low = INFINITY, .high = -INFINITY, .from = HEIGHT - BOTTOM, .to = TOP };
    const int width = RIGHT + legend_width(plot);
    Labels labels = { .n = 0 };
    char turned[96];

    for (size_t i = 0; i < plot->n_series; i++)
        for (size_t j = 0; j < plot->series[i].n; j++) {
            axis_take_in(&x, plot->series[i].points[j].x);
            axis_take_in(&y, plot->series[i].points[j].y);
        }
    if (plot->level_name)
        axis_take_in(&y, plot->level);
    if (plot->n_groups) {
        x.low = -0.5;
        x.high = (double)plot->n_groups - 0.5;
        axis_take_in(&y, 0);
        y.starts_at_0 = true;
    } else {
        axis_settle(&x, plot->x_logarithmic);
    }
    axis_settle(&y, !plot->n_groups);

    str_buf_addf(text,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                 "font-family=\"sans-serif\" font-size=\"12\">\n"
                 "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
                 width, HEIGHT, width, HEIGHT, width, HEIGHT);
    put_title(text, plot->title, width);
    if (plot->n_groups)
        put_group_names(text, plot, &x);
    else if (x.logarithmic)
        put_x_ticks(text, plot, &x);
    else
        put_axis(text, &x, true);
    put_axis(text, &y, false);
    str_buf_addf(text, "<path d=\"M%d %d V%d H%d\" fill=\"none\" stroke=\"black\"/>\n", LEFT, TOP, HEIGHT - BOTTOM,
                 RIGHT);
    put_text(text, (LEFT + RIGHT) / 2.0, HEIGHT - 18, "middle", "", plot->x_title);
    snprintf(turned, sizeof(turned), " transform=\"rotate(-90 20 %d)\"", (TOP + HEIGHT - BOTTOM) / 2);
    put_text(text, 20, (TOP + HEIGHT - BOTTOM) / 2.0, "middle", turned, plot->y_title);
    if (plot->level_name) {
        double at = place(&y, plot->level);

        str_buf_addf(text,
                     "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"black\" stroke-dasharray=\"6 4\"/>\n",
                     LEFT, at, RIGHT, at);
        put_text(text, RIGHT + 8, at + 4, "start", "", plot->level_name);
    }
    for (size_t i = 0; i < plot->n_series; i++)
        if (plot->n_groups)
            put_bars(text, plot, i, &x, &y);
        else
            put_series(text, &labels, plot, i, &x, &y);
    put_key(text, plot);
    str_buf_add(text, "</svg>\n");
}

int svg_write(const StrBuf *text, const char *path, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    int r;

    if (str_buf_failed(text))
        return err_set(err, -ENOMEM, "out of memory");
    r = atomic_file_new(&file, path, err);
    if (r)
        return r;
    r = file_write_all(atomic_file_fd(file), text->data, text->len_bytes);
    return r ? err_set(err, r, "%s: cannot write: %s", path, strerror(-r)) : atomic_file_commit(file, err);
}
