// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "tools/eval/tables/svg_plot.h"

static const SvgPoint points[] = { { 100, 30.5, "4" }, { 150, 29, "5" }, { 200, 28.25, NULL } };
static const SvgSeries one[] = { { "int8", points, ARRAY_LEN(points), false },
                                 { "a<b & \"c\"\x01", points, 1, false } };

static char *draw(const SvgSeries *series, size_t n, double level, const char *level_name) {
    SvgPlot plot = {
        .title = "model & co",
        .x_title = "MB",
        .y_title = "perplexity",
        .series = series,
        .n_series = n,
        .level = level,
        .level_name = level_name,
    };
    StrBuf text = STR_BUF_NULL;

    svg_plot(&text, &plot);
    assert_false(str_buf_failed(&text));
    return str_buf_steal(&text);
}

static size_t count(const char *text, const char *what) {
    size_t n = 0;

    for (text = strstr(text, what); text; text = strstr(text + 1, what))
        n++;
    return n;
}

/* Every number of an attribute, in the order of the document. */
static size_t numbers(const char *text, const char *attribute, double *values, size_t room) {
    size_t n = 0;

    for (text = strstr(text, attribute); text && n < room; text = strstr(text + 1, attribute))
        values[n++] = strtod(text + strlen(attribute), NULL);
    return n;
}

static void test_svg_plot_points(void **state) {
    _cleanup_(freep) char *text = draw(one, 1, 28, "float");
    double x[16], y[16];

    /* Three points and the legend's. */
    assert_int_equal(numbers(text, "cx=\"", x, ARRAY_LEN(x)), 4);
    assert_int_equal(numbers(text, "cy=\"", y, ARRAY_LEN(y)), 4);
    assert_true(x[0] < x[1] && x[1] < x[2] && fabs((x[1] - x[0]) - (x[2] - x[1])) < 0.2);
    assert_true(y[0] < y[1] && y[1] < y[2]); /* down is less */
    assert_true(fabs((y[2] - y[1]) / (y[1] - y[0]) - 0.5) < 0.01);
    assert_int_equal(count(text, "<polyline"), 1);
    assert_int_equal(count(text, "stroke-dasharray"), 1);
    assert_int_equal(count(text, ">float</text>"), 1);
    assert_int_equal(count(text, ">4</text>"), 1);
    for (size_t i = 0; i < 3; i++)
        assert_true(x[i] >= 80 && x[i] <= 570 && y[i] >= 50 && y[i] <= 420);
}

static void test_svg_plot_escapes(void **state) {
    _cleanup_(freep) char *text = draw(one, 2, 0, NULL);

    assert_int_equal(count(text, "model &amp; co"), 1);
    assert_int_equal(count(text, ">a&lt;b &amp; \"c\"</text>"), 1);
    assert_int_equal(count(text, "stroke-dasharray"), 0);
    assert_int_equal(count(text, "<polyline"), 1); /* a single point has no line */
    assert_int_equal(count(text, "<text"), count(text, "</text>"));
    assert_null(strchr(text, 1));
}

/* Past a factor of 4 the y axis is logarithmic: equal ratios are equally far apart. */
static void test_svg_plot_logarithmic(void **state) {
    static const SvgPoint steep[] = { { 1, 10, NULL }, { 2, 100, NULL }, { 3, 1000, NULL } };
    static const SvgSeries series[] = { { "s", steep, 3, false } };
    _cleanup_(freep) char *text = draw(series, 1, 10, "float");
    double y[8];

    assert_int_equal(numbers(text, "cy=\"", y, ARRAY_LEN(y)), 4);
    assert_true(fabs((y[0] - y[1]) - (y[1] - y[2])) < 0.2);
}

/* Bars of a group stand side by side, from 0 up, as high as their values. */
static void test_svg_plot_bars(void **state) {
    static const char *const groups[] = { "code", "chat" };
    static const SvgPoint slow[] = { { 0, 1, NULL }, { 1, 2, NULL } }, fast[] = { { 1, 40, NULL } };
    static const SvgSeries series[] = { { "slow", slow, 2, false }, { "fast", fast, 1, false } };
    const SvgPlot plot = {
        .title = "t", .x_title = "", .y_title = "y", .series = series, .n_series = 2, .groups = groups, .n_groups = 2
    };
    StrBuf text = STR_BUF_NULL;
    double x[3], width[4], height[4];

    svg_plot(&text, &plot);
    assert_false(str_buf_failed(&text));
    assert_int_equal(numbers(text.data, "<rect x=\"", x, 3), 3);
    assert_int_equal(numbers(text.data, " width=\"", width, 4), 4); /* first the picture and its ground */
    assert_int_equal(numbers(strstr(text.data, "<rect x"), " height=\"", height, 4), 3);
    assert_float_equal(x[1] + width[2], x[2], 0.11);
    assert_true(x[0] + width[2] < x[1]);
    assert_float_equal(height[1], 2 * height[0], 0.2);
    assert_float_equal(height[2], 40 * height[0], 4);
    assert_int_equal(count(text.data, ">code<") + count(text.data, ">chat<"), 2);
    str_buf_deinit(&text);
}

/* Labels of points that lie on one another are all to be read. */
static void test_svg_plot_labels(void **state) {
    static const SvgPoint near[] = { { 1, 1, "aaaa" }, { 1.001, 1, "bbbb" }, { 1, 1.001, "cccc" }, { 2, 2, "dddd" } };
    static const SvgSeries series[] = { { "s", near, 4, false } };
    _cleanup_(freep) char *text = draw(series, 1, 0, NULL);
    static const char *const names[] = { ">aaaa<", ">bbbb<", ">cccc<", ">dddd<" };
    double x[4], y[4];

    for (size_t i = 0; i < 4; i++) {
        const char *at = strstr(text, names[i]);

        assert_non_null(at);
        while (strncmp(at, "<text", 5) != 0)
            at--;
        assert_int_equal(numbers(at, "x=\"", &x[i], 1), 1);
        assert_int_equal(numbers(at, "y=\"", &y[i], 1), 1);
        for (size_t j = 0; j < i; j++)
            assert_true(fabs(x[i] - x[j]) > 4 * 6 || fabs(y[i] - y[j]) > 9);
    }
}

/* What is wider than the picture goes on in a second line, from a word's beginning on. */
static void test_svg_plot_title(void **state) {
    const char wide[] =
        "a large model of the one kind with a small model of the other kind on a machine whose name is long";
    SvgPlot plot = { .title = wide, .x_title = "x", .y_title = "y", .series = one, .n_series = 1 };
    StrBuf text = STR_BUF_NULL;
    double y[4];

    svg_plot(&text, &plot);
    assert_false(str_buf_failed(&text));
    assert_int_equal(count(text.data, "font-size=\"15\""), 2);
    assert_int_equal(
        count(text.data, ">a large model of the one kind with a small model of the other kind on a machine<"), 1);
    assert_int_equal(count(text.data, ">whose name is long<"), 1);
    assert_true(numbers(strstr(text.data, "<text"), " y=\"", y, 2) == 2 && y[0] > 15 && y[0] + 15 < y[1] && y[1] < 50);
    text.len_bytes = 0;
    plot.title = "one_word_that_is_wider_than_the_picture_and_cannot_be_broken_anywhere_at_all_so_it_stays_as_it_is";
    svg_plot(&text, &plot);
    assert_int_equal(count(text.data, "font-size=\"15\""), 1);
    str_buf_deinit(&text);
}

static void test_svg_plot_empty(void **state) {
    static const SvgPoint single[] = { { 5, 0, "z" } },
                          rounded[] = { { 250, 3, NULL }, { 250.00000000000003, 3, NULL } };
    static const SvgSeries almost[] = { { "almost one", rounded, 2, false } };
    _cleanup_(freep) char *merged = draw(almost, 1, 0, NULL);
    static const SvgSeries series[] = { { "none", NULL, 0, false }, { "single", single, 1, false } };
    _cleanup_(freep) char *empty = draw(NULL, 0, 0, NULL), *few = draw(series, 2, 0, NULL);
    _cleanup_(freep) char *again = draw(series, 2, 0, NULL);

    assert_int_equal(count(merged, "<circle"), 3);
    assert_null(strstr(merged, "nan"));
    assert_null(strstr(empty, "nan"));
    assert_null(strstr(empty, "inf"));
    assert_null(strstr(few, "nan"));
    assert_int_equal(count(few, "<circle"), 2);
    assert_int_equal(count(few, ">none</text>"), 0);
    assert_string_equal(few, again);
}

/* Four shapes, as many series each as there are colours: no two series look alike, each looks in the legend as in the
 * plot, and the picture is as wide as the names. */
static void test_svg_plot_legend(void **state) {
    enum {
        N = 28
    };
    SvgSeries series[N];
    char names[N][256];
    const char *fills[2 * N];
    size_t n = 0;

    for (size_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "edgeflow:5:-smoothing:allocation=uniform, %zu", i);
        series[i] = (SvgSeries){ names[i], points, 1, false };
    }
    memset(names[N - 1], 'm', sizeof(names[N - 1]) - 1);
    names[N - 1][sizeof(names[N - 1]) - 1] = 0;
    _cleanup_(freep) char *text = draw(series, N, 0, NULL), *few = draw(one, 1, 0, NULL);

    assert_int_equal(count(text, "<circle"), 2 * N / 4);
    assert_int_equal(count(text, "<polygon"), 2 * N - 2 * N / 4);
    for (const char *at = strstr(text, "\" fill=\"#"); at && n < ARRAY_LEN(fills); at = strstr(at + 1, "\" fill=\"#"))
        fills[n++] = at;
    assert_int_equal(n, ARRAY_LEN(fills));
    for (size_t i = 0; i < N; i++) {
        assert_memory_equal(fills[i], fills[N + i], strlen("\" fill=\"#000000"));
        for (size_t j = i / 7 * 7; j < i; j++)
            assert_memory_not_equal(fills[i], fills[j], strlen("\" fill=\"#000000"));
    }
    assert_int_equal(strtol(strstr(few, "width=\"") + 7, NULL, 10), 760);
    assert_true(strtol(strstr(text, "width=\"") + 7, NULL, 10) >= 596 + 6 * (long)strlen(names[N - 1]));
}

/* What the machine could do is a dashed line of its series' colour, and one more line of the key. */
static void test_svg_plot_floors(void **state) {
    static const SvgPoint speed[] = { { 1, 10, NULL }, { 4, 20, NULL }, { 16, 30, NULL } },
                          floor[] = { { 1, 20, NULL }, { 16, 40, NULL } };
    const SvgSeries series[] = {
        { .name = "a", .points = speed, .n = 3 },
        { .name = "a", .points = floor, .n = 2, .is_floor = true },
        { .name = "b", .points = speed, .n = 3 },
    };
    const SvgPlot plot = {
        .title = "t", .x_title = "x", .y_title = "y", .series = series, .n_series = 3, .x_logarithmic = true
    };
    StrBuf text = STR_BUF_NULL;

    svg_plot(&text, &plot);
    assert_false(str_buf_failed(&text));
    assert_int_equal(count(text.data, "stroke=\"#0072b2\""), 2);
    assert_int_equal(count(text.data, "stroke=\"#d55e00\""), 1);
    assert_int_equal(count(text.data, "stroke-dasharray"), 2);
    assert_int_equal(count(text.data, ">what the machine could do<"), 1);
    assert_int_equal(count(text.data, "<circle"), 3 + 3 + 2);
    /* Doublings are equally far apart, and ticks are where points are. */
    assert_int_equal(count(text.data, "text-anchor=\"middle\">4</text>"), 1);
    assert_int_equal(count(text.data, "text-anchor=\"middle\">16</text>"), 1);
    str_buf_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_svg_plot_points),      cmocka_unit_test(test_svg_plot_escapes),
        cmocka_unit_test(test_svg_plot_logarithmic), cmocka_unit_test(test_svg_plot_empty),
        cmocka_unit_test(test_svg_plot_title),       cmocka_unit_test(test_svg_plot_legend),
        cmocka_unit_test(test_svg_plot_floors),      cmocka_unit_test(test_svg_plot_bars),
        cmocka_unit_test(test_svg_plot_labels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
