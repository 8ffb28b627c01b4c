// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/mobile/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "tools/eval/text_file.h"

#define COLUMNS 880u /* parts of the longest band; each has one kind, since operators are too short to tell apart */

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

static const char *const kind_names[_TIMELINE_KINDS] = {
    [TIMELINE_PRODUCT] = "products",
    [TIMELINE_ATTENTION] = "attention",
    [TIMELINE_OTHER] = "other operators",
    [TIMELINE_LOAD_PROMPTS] = "graphs of prompts",
    [TIMELINE_LOAD_DECODING] = "graphs of decoding",
    [TIMELINE_WAIT] = "waiting for a load",
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

/* --- the numbers of the picture ----------------------------------------------------------------------------------- */

/* Times that each kind ran within one column. */
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

static double ms_of(double ns) {
    return ns / 1e6;
}

static void put_line(StrBuf *text, const TimelineBand *band, TimelineLine line, double ns_of_column) {
    TimelineColumn columns[COLUMNS];

    count_spans(columns, band, line, ns_of_column);
    for (size_t at = 0, end; at < COLUMNS; at = end) {
        const TimelineKind kind = kind_of(&columns[at], ns_of_column);

        end = at + 1;
        while (end < COLUMNS && kind_of(&columns[end], ns_of_column) == kind)
            end++;
        if (kind < _TIMELINE_KINDS)
            str_buf_addf(text, "span,%s,%s,%.2f,%.2f\n", line_names[line], kind_names[kind],
                         ms_of((double)at * ns_of_column), ms_of((double)end * ns_of_column));
    }
}

void timeline_csv(StrBuf *text, const Timeline *timeline, const char *title) {
    uint64_t longest_ns = 1;

    for (size_t i = 0; i < timeline->n; i++)
        longest_ns = MAX(timeline->bands[i].len_ns, longest_ns);
    str_buf_addf(text, "title,%s\nx,ms\n", title);
    for (size_t i = 0; i < timeline->n; i++) {
        const TimelineBand *band = &timeline->bands[i];

        str_buf_addf(text, "band,%.2f,%.2f,%s\n", ms_of((double)band->len_ns), ms_of((double)band->prompt_end_ns),
                     band->name);
        for (size_t line = 0; line < _TIMELINE_LINES; line++)
            put_line(text, band, (TimelineLine)line, (double)longest_ns / COLUMNS);
    }
}

int timeline_write(const Timeline *timeline, const char *title, const char *path, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    timeline_csv(&text, timeline, title);
    return text_file_write(&text, path, err);
}
