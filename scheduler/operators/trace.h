// SPDX-License-Identifier: Apache-2.0
/* Records what ran when: a list of time spans in memory of a fixed size. The list is written as JSON for Chrome
 * (chrome://tracing) and Perfetto. */
#ifndef COORDGEN_SCHEDULER_TRACE_H
#define COORDGEN_SCHEDULER_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

/* The line of the picture that an event stands on. Events of a lane do not overlap, but one may lie within another. */
typedef enum TraceLane {
    TRACE_LANE_ENGINE, /* the thread that computes, with its workers */
    TRACE_LANE_RUN,    /* spans that a bench measures */
    TRACE_LANE_TOKENIZER,
    TRACE_LANE_NPU,                          /* a device's queue for products */
    TRACE_LANE_READ,                         /* first of TRACE_READS lanes: reads under way at the same time */
    TRACE_LANE_WORKER = TRACE_LANE_READ + 8, /* first of TRACE_WORKERS lanes: threads beside the engine's */
} TraceLane;

#define TRACE_READS (TRACE_LANE_WORKER - TRACE_LANE_READ)
#define TRACE_WORKERS 63
#define TRACE_LANES_N (TRACE_LANE_WORKER + TRACE_WORKERS)

typedef struct TraceEvent {
    const char *name;     /* of the operator; outlives the trace */
    const char *category; /* outlives the trace */
    uint64_t start_ns, end_ns;
    int32_t layer;      /* -1: none */
    uint32_t row, rows; /* `rows` rows of the step from `row` on */
    uint32_t lane;      /* below TRACE_LANES_N */
    uint64_t bytes;     /* that were read or laid out; 0: none */
} TraceEvent;

typedef struct Trace Trace;

/* Makes a trace with room for n_max events. 0 or -ENOMEM. */
int trace_new(Trace **tracep, size_t n_max);
Trace *trace_free(Trace *trace);
DEFINE_CLEANUP(Trace, trace_free)

/* Adds an event, or counts it as lost if there is no room. Any thread; other calls are for times when nobody adds. */
void trace_add(Trace *trace, const TraceEvent *event);
void trace_clear(Trace *trace);
size_t trace_n(const Trace *trace);
const TraceEvent *trace_at(const Trace *trace, size_t index);
/* Returns the number of lost events. */
uint64_t trace_n_lost(const Trace *trace);
/* Writes the trace and replaces the file at path. 0 or -errno, with a text that names the file. */
int trace_write(const Trace *trace, const char *path, ErrText *err);

#endif
