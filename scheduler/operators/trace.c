// SPDX-License-Identifier: Apache-2.0
#include "scheduler/operators/trace.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/min_max.h"
#include "base/strings/str_buf.h"

/* The text is written in parts of about so many bytes. */
#define PART_BYTES 65536

struct Trace {
    TraceEvent *events; /* [n_max] */
    size_t n_max;
    _Atomic size_t n_added; /* events past n_max are lost */
};

int trace_new(Trace **tracep, size_t n_max) {
    _cleanup_(trace_freep) Trace *trace = calloc(1, sizeof(*trace));

    if (!trace)
        return err_raise(-ENOMEM);
    trace->events = calloc(n_max, sizeof(*trace->events));
    if (!trace->events)
        return err_raise(-ENOMEM);
    trace->n_max = n_max;
    *tracep = steal(&trace);
    return 0;
}

Trace *trace_free(Trace *trace) {
    if (trace) {
        free(trace->events);
        free(trace);
    }
    return NULL;
}

void trace_add(Trace *trace, const TraceEvent *event) {
    size_t index;

    assert(event->lane < TRACE_LANES_N);
    index = atomic_fetch_add_explicit(&trace->n_added, 1, memory_order_relaxed);
    if (index < trace->n_max)
        trace->events[index] = *event;
}

void trace_clear(Trace *trace) {
    atomic_store(&trace->n_added, 0);
}

size_t trace_n(const Trace *trace) {
    const size_t n = atomic_load(&trace->n_added);

    return MIN(n, trace->n_max);
}

const TraceEvent *trace_at(const Trace *trace, size_t index) {
    assert(index < trace_n(trace));
    return &trace->events[index];
}

uint64_t trace_n_lost(const Trace *trace) {
    return atomic_load(&trace->n_added) - trace_n(trace);
}

/* Returns the earliest start: an event is added at its end, so the first one added need not have begun first. */
static uint64_t origin_of(const Trace *trace) {
    uint64_t origin_ns = UINT64_MAX;

    for (size_t i = 0; i < trace_n(trace); i++)
        origin_ns = MIN(trace->events[i].start_ns, origin_ns);
    return origin_ns;
}

/* Appends an event, with times in microseconds from the origin on. */
static void add_event(StrBuf *text, const TraceEvent *event, uint64_t origin_ns) {
    str_buf_addf(text,
                 "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%" PRIu32 ",\"ts\":%.3f,\"dur\":%.3f,"
                 "\"args\":{\"rows\":%" PRIu32,
                 event->name, event->category, event->lane + 1, (double)(event->start_ns - origin_ns) / 1e3,
                 (double)(event->end_ns - event->start_ns) / 1e3, event->rows);
    if (event->row)
        str_buf_addf(text, ",\"row\":%" PRIu32, event->row);
    if (event->layer >= 0)
        str_buf_addf(text, ",\"layer\":%" PRId32, event->layer);
    if (event->bytes)
        str_buf_addf(text, ",\"bytes\":%" PRIu64, event->bytes);
    str_buf_add(text, "}}");
}

/* Names the lanes that have events. */
static void add_lane_names(StrBuf *text, const Trace *trace) {
    static const char *const names[] = { "engine", "measured", "tokenizer", "npu" };
    bool has_events[TRACE_LANES_N] = { false };

    for (size_t i = 0; i < trace_n(trace); i++)
        has_events[trace->events[i].lane] = true;
    for (uint32_t lane = 0; lane < TRACE_LANES_N; lane++) {
        if (!has_events[lane])
            continue;
        str_buf_addf(
            text,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu32 ",\"args\":{\"name\":", lane + 1);
        if (lane < TRACE_LANE_READ)
            str_buf_addf(text, "\"%s\"}}", names[lane]);
        else if (lane < TRACE_LANE_WORKER)
            str_buf_addf(text, "\"read %" PRIu32 "\"}}", lane - TRACE_LANE_READ + 1);
        else
            str_buf_addf(text, "\"worker %" PRIu32 "\"}}", lane - TRACE_LANE_WORKER + 1);
    }
}

static int flush(StrBuf *text, AtomicFile *file, const char *path, ErrText *err) {
    int r = str_buf_failed(text) ? -ENOMEM : file_write_all(atomic_file_fd(file), text->data, text->len_bytes);

    str_buf_truncate(text, 0);
    return r ? err_set(err, r, "%s: the trace cannot be written: %s", path, strerror(-r)) : 0;
}

/**
 * trace_write() - all events as a JSON object of Chrome's trace event format
 *
 * Return: 0 or -errno with a text that names the file; what was there before stays then.
 */
int trace_write(const Trace *trace, const char *path, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    _cleanup_(str_buf_deinit) StrBuf text = { 0 };
    const uint64_t origin_ns = origin_of(trace);
    int r = atomic_file_new(&file, path, err);

    if (r)
        return r;
    str_buf_add(&text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (size_t i = 0; i < trace_n(trace) && !r; i++) {
        str_buf_add(&text, i ? ",\n" : "");
        add_event(&text, &trace->events[i], origin_ns);
        if (text.len_bytes > PART_BYTES)
            r = flush(&text, file, path, err);
    }
    add_lane_names(&text, trace);
    str_buf_addf(&text, "\n],\"otherData\":{\"lost\":%" PRIu64 "}}\n", trace_n_lost(trace));
    if (!r)
        r = flush(&text, file, path, err);
    return r ? r : atomic_file_commit(file, err);
}
