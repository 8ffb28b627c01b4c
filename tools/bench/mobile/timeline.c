// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/mobile/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "tools/eval/text_file.h"

#define WIDTH 1000.0
#define LEFT 90.0    /* x of the bands, behind the names of the lines */
#define COLUMNS 880u /* pixels of the longest one */
#define TOP 80.0
#define LINE_HEIGHT 14.0
#define LINE_GAP 3.0
#define BAND_GAP 30.0 /* gap with the name of the next band */
#define BOTTOM 30.0
#define TICKS 8.0

typedef struct TimelineSpan {
    uint64_t start_ns, end_ns; /* since the band's begin */
    TimelineLine line;
    TimelineKind kind;
} TimelineSpan;

typedef struct TimelineBand {
    size_t place;
    char name[64];
    uint64_t len_ns, prompt_end_ns;
    TimelineSpan *spans;
    size_t n;
} TimelineBand;

struct Timeline {
    TimelineBand bands[TIMELINE_BANDS_MAX];
    size_t n;
};

static const char *const line_names[_TIMELINE_LINES] = { "NPU", "processors", "loads" };

/* Colours of Okabe and Ito, which people with any colour vision tell apart. */
static const struct {
    const char *name, *colour;
} kinds[_TIMELINE_KINDS] = {
    [TIMELINE_PRODUCT] = { "products", "#0072b2" },
    [TIMELINE_ATTENTION] = { "attention", "#e69f00" },
    [TIMELINE_OTHER] = { "other operators", "#009e73" },
    [TIMELINE_LOAD_PROMPTS] = { "graphs of prompts", "#56b4e9" },
    [TIMELINE_LOAD_DECODING] = { "graphs of decoding", "#cc79a7" },
    [TIMELINE_WAIT] = { "waiting for a load", "#d55e00" },
};

int timeline_new(Timeline **timelinep) {
    Timeline *timeline = calloc(1, sizeof(*timeline));

    if (!timeline)
        return err_raise(-ENOMEM);
    *timelinep = timeline;
    return 0;
}

Timeline *timeline_free(Timeline *timeline) {
    for (size_t i = 0; timeline && i < timeline->n; i++)
        free(timeline->bands[i].spans);
    free(timeline);
    return NULL;
}

/* --- bands -------------------------------------------------------------------------------------------------------- */

/* Places an event on a line. Without a queue a step waits for each product, so the layers' products are on the engine's
 * line of the trace, between other operators. With a queue the engine's line has the products that a processor took. */
static bool place_event(const TraceEvent *event, bool has_queue, TimelineSpan *span) {
    const bool is_product = !strcmp(event->category, "product"),
               is_of_npu = event->lane == TRACE_LANE_NPU || (!has_queue && is_product && event->layer >= 0);

    if (event->lane >= TRACE_LANE_READ && event->lane < TRACE_LANE_READ + TRACE_READS) {
        span->line = TIMELINE_LOADS;
        span->kind = strcmp(event->name, "graph of prompts") ? TIMELINE_LOAD_DECODING : TIMELINE_LOAD_PROMPTS;
        return true;
    }
    if (event->lane != TRACE_LANE_NPU && event->lane != TRACE_LANE_ENGINE && event->lane < TRACE_LANE_WORKER)
        return false;
    span->line = is_of_npu ? TIMELINE_NPU : TIMELINE_PROCESSORS;
    span->kind = is_product                              ? TIMELINE_PRODUCT
                 : !strcmp(event->category, "attention") ? TIMELINE_ATTENTION
                 : !strcmp(event->category, "load")      ? TIMELINE_WAIT
                                                         : TIMELINE_OTHER;
    return true;
}

/* Makes room for a band before those of a higher place. */
static TimelineBand *new_band(Timeline *timeline, size_t place) {
    size_t at = timeline->n;

    while (at > 0 && timeline->bands[at - 1].place > place)
        at--;
    memmove(&timeline->bands[at + 1], &timeline->bands[at], (timeline->n - at) * sizeof(*timeline->bands));
    timeline->n++;
    return &timeline->bands[at];
}

int timeline_add(Timeline *timeline, size_t place, const char *name, const Trace *trace, size_t first,
                 uint64_t start_ns, uint64_t prompt_end_ns, uint64_t end_ns) {
    _cleanup_(freep) TimelineSpan *spans = calloc(trace_n(trace) - first + 1, sizeof(*spans));
    bool has_queue = false;
    TimelineBand *band;
    size_t n = 0;

    if (!spans)
        return err_raise(-ENOMEM);
    if (timeline->n == TIMELINE_BANDS_MAX)
        return err_raise(-E2BIG);
    for (size_t i = first; i < trace_n(trace); i++)
        has_queue = has_queue || trace_at(trace, i)->lane == TRACE_LANE_NPU;
    for (size_t i = first; i < trace_n(trace); i++) {
        const TraceEvent *event = trace_at(trace, i);

        if (event->end_ns <= start_ns || event->start_ns >= end_ns || !place_event(event, has_queue, &spans[n]))
            continue;
        spans[n].start_ns = event->start_ns > start_ns ? event->start_ns - start_ns : 0;
        spans[n].end_ns = MIN(event->end_ns, end_ns) - start_ns;
        n++;
    }
    band = new_band(timeline, place);
    *band = (TimelineBand){ .place = place,
                            .len_ns = end_ns - start_ns,
                            .prompt_end_ns = prompt_end_ns ? prompt_end_ns - start_ns : 0,
                            .n = n };
    snprintf(band->name, sizeof(band->name), "%s", name);
    band->spans = steal(&spans);
    return 0;
}

/* --- the picture -------------------------------------------------------------------------------------------------- */

static void put_text(StrBuf *text, double x, double y, const char *anchor, const char *what) {
    str_buf_addf(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    str_buf_add_xml(text, what);
    str_buf_add(text, "</text>\n");
}

static void put_box(StrBuf *text, double x, double y, double width, double height, const char *colour) {
    str_buf_addf(text, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, width,
                 height, colour);
}

/* Times that each kind ran within one column of pixels. */
typedef struct TimelineColumn {
    double ns[_TIMELINE_KINDS];
} TimelineColumn;

static void count_spans(TimelineColumn columns[COLUMNS], const TimelineBand *band, TimelineLine line,
                        double ns_of_column) {
    memset(columns, 0, COLUMNS * sizeof(*columns));
    for (size_t i = 0; i < band->n; i++) {
        const TimelineSpan *span = &band->spans[i];
        const double start = (double)span->start_ns, end = (double)span->end_ns;

        for (size_t at = (size_t)(start / ns_of_column);
             span->line == line && at < COLUMNS && (double)at * ns_of_column < end; at++)
            columns[at].ns[span->kind] +=
                fmin(end, (double)(at + 1) * ns_of_column) - fmax(start, (double)at * ns_of_column);
    }
}

/* Returns the kind that fills most of a column; _TIMELINE_KINDS: nothing ran. */
static TimelineKind kind_of(const TimelineColumn *column, double ns_of_column) {
    TimelineKind kind = _TIMELINE_KINDS;
    double most = 0, left = ns_of_column;

    for (size_t i = 0; i < _TIMELINE_KINDS; i++) {
        left -= column->ns[i];
        if (column->ns[i] > most) {
            most = column->ns[i];
            kind = (TimelineKind)i;
        }
    }
    return left > ns_of_column / 2 ? _TIMELINE_KINDS : kind;
}

/* Draws a line of a band. Each column of pixels has one kind, since operators are too short to tell apart. */
static void put_line(StrBuf *text, const TimelineBand *band, TimelineLine line, double y, double ns_of_column) {
    TimelineColumn columns[COLUMNS];

    count_spans(columns, band, line, ns_of_column);
    for (size_t kind = 0; kind < _TIMELINE_KINDS; kind++) {
        bool has_any = false;

        for (size_t at = 0, end; at < COLUMNS; at = end) {
            end = at + 1;
            if (kind_of(&columns[at], ns_of_column) != (TimelineKind)kind)
                continue;
            while (end < COLUMNS && kind_of(&columns[end], ns_of_column) == (TimelineKind)kind)
                end++;
            if (!has_any)
                str_buf_addf(text, "<path stroke=\"%s\" stroke-width=\"%.0f\" d=\"", kinds[kind].colour, LINE_HEIGHT);
            has_any = true;
            str_buf_addf(text, "M%.0f %.0fh%zu", LEFT + (double)at, y + LINE_HEIGHT / 2, end - at);
        }
        if (has_any)
            str_buf_add(text, "\"/>\n");
    }
}

static double band_height(const TimelineBand *band) {
    size_t n = _TIMELINE_LINES - 1;

    for (size_t i = 0; i < band->n; i++)
        n = band->spans[i].line == TIMELINE_LOADS ? _TIMELINE_LINES : n;
    return (double)n * (LINE_HEIGHT + LINE_GAP) - LINE_GAP;
}

/* Draws a band: its name, its lines, what ran, and the end of the prompt. */
static void put_band(StrBuf *text, const TimelineBand *band, double y, double ns_of_column) {
    const double height = band_height(band), width = (double)band->len_ns / ns_of_column;

    put_text(text, LEFT, y - 6, "start", band->name);
    for (size_t line = 0; (double)line * (LINE_HEIGHT + LINE_GAP) < height; line++) {
        const double at = y + (double)line * (LINE_HEIGHT + LINE_GAP);

        put_box(text, LEFT, at, width, LINE_HEIGHT, "#eeeeee");
        put_text(text, LEFT - 6, at + LINE_HEIGHT - 3, "end", line_names[line]);
        put_line(text, band, (TimelineLine)line, at, ns_of_column);
    }
    if (band->prompt_end_ns)
        str_buf_addf(text, "<path d=\"M%.1f %.1fv%.1f\" stroke=\"black\" stroke-dasharray=\"3 2\"/>\n",
                     LEFT + (double)band->prompt_end_ns / ns_of_column, y - 3, height + 6);
}

/* Returns the distance of ticks: 1, 2 or 5 times a power of ten. */
static double tick_of(double span_ms) {
    const double power = pow(10, floor(log10(span_ms / TICKS))), share = span_ms / TICKS / power;

    return power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
}

static void put_scale(StrBuf *text, double y, uint64_t len_ns, double ns_of_column) {
    const double span_ms = (double)len_ns / 1e6, tick_ms = tick_of(span_ms);

    for (size_t i = 0; (double)i * tick_ms <= span_ms; i++) {
        const double x = LEFT + (double)i * tick_ms * 1e6 / ns_of_column;
        char name[32];

        snprintf(name, sizeof(name), "%g ms", (double)i * tick_ms);
        str_buf_addf(text, "<path d=\"M%.1f %.1fv5\" stroke=\"black\"/>\n", x, y);
        put_text(text, x, y + 18, "middle", name);
    }
}

static void put_legend(StrBuf *text) {
    double x = LEFT;

    for (size_t i = 0; i < _TIMELINE_KINDS; i++) {
        put_box(text, x, 34, 12, 12, kinds[i].colour);
        put_text(text, x + 17, 44, "start", kinds[i].name);
        x += 32 + 6.6 * (double)strlen(kinds[i].name);
    }
}

void timeline_svg(StrBuf *text, const Timeline *timeline, const char *title) {
    uint64_t longest_ns = 1;
    double y = TOP, height = TOP + BOTTOM, ns_of_column;

    for (size_t i = 0; i < timeline->n; i++) {
        longest_ns = MAX(timeline->bands[i].len_ns, longest_ns);
        height += band_height(&timeline->bands[i]) + BAND_GAP;
    }
    ns_of_column = (double)longest_ns / COLUMNS;
    str_buf_addf(text,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                 "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
                 "fill=\"white\"/>\n",
                 WIDTH, height, WIDTH, height);
    put_text(text, LEFT, 20, "start", title);
    put_legend(text);
    for (size_t i = 0; i < timeline->n; i++) {
        put_band(text, &timeline->bands[i], y, ns_of_column);
        y += band_height(&timeline->bands[i]) + BAND_GAP;
    }
    put_scale(text, y - BAND_GAP + 6, longest_ns, ns_of_column);
    str_buf_add(text, "</svg>\n");
}

/* --- the same in numbers ------------------------------------------------------------------------------------------ */

static double ms_of(uint64_t ns) {
    return (double)ns / 1e6;
}

static json_t *band_json(const TimelineBand *band) {
    json_t *spans = json_array();

    for (size_t i = 0; i < band->n; i++) {
        const TimelineSpan *span = &band->spans[i];

        json_array_append_new(spans, json_pack("{s:s, s:s, s:f, s:f}", "line", line_names[span->line], "kind",
                                               kinds[span->kind].name, "start_ms", ms_of(span->start_ns), "end_ms",
                                               ms_of(span->end_ns)));
    }
    return json_pack("{s:s, s:f, s:o*, s:o}", "name", band->name, "ms", ms_of(band->len_ns), "prompt_ms",
                     band->prompt_end_ns ? json_real(ms_of(band->prompt_end_ns)) : NULL, "spans", spans);
}

json_t *timeline_json(const Timeline *timeline, const char *title) {
    json_t *bands = json_array();

    for (size_t i = 0; i < timeline->n; i++)
        json_array_append_new(bands, band_json(&timeline->bands[i]));
    return json_pack("{s:s, s:o}", "title", title, "bands", bands);
}

/* Appends the JSON; leaves the text empty when there is no memory. */
static void put_json(StrBuf *text, const Timeline *timeline, const char *title) {
    json_t *document = timeline_json(timeline, title);
    _cleanup_(freep) char *dumped = document ? json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;

    json_decref(document);
    if (dumped)
        str_buf_addf(text, "%s\n", dumped);
}

int timeline_write(const Timeline *timeline, const char *title, const char *path, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    const size_t n = strlen(path), n_end = strlen(".json");

    if (n > n_end && !strcmp(path + n - n_end, ".json"))
        put_json(&text, timeline, title);
    else
        timeline_svg(&text, timeline, title);
    if (!text.len_bytes)
        return err_no_memory(err);
    return text_file_write(&text, path, err);
}
