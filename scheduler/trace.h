// SPDX-License-Identifier: Apache-2.0
/* What ran when: a list of spans of time in memory of a fixed size, written as JSON that Chrome (chrome://tracing) and
 * Perfetto show. */
#ifndef COORDGEN_SCHEDULER_TRACE_H
#define COORDGEN_SCHEDULER_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

/* The line of the picture that an event stands on; on each one thing happens at a time, or one within the other. */
typedef enum TraceLane {
    TRACE_LANE_ENGINE, /* the thread that computes, with its workers */
    TRACE_LANE_RUN,    /* what a bench measures */
    TRACE_LANE_TOKENIZER,
    TRACE_LANE_NPU,                          /* a device's queue for products */
    TRACE_LANE_READ,                         /* and the next TRACE_READS - 1: reads under way at the same time */
    TRACE_LANE_WORKER = TRACE_LANE_READ + 8, /* and the next TRACE_WORKERS - 1: threads beside the engine's */
} TraceLane;

#define TRACE_READS (TRACE_LANE_WORKER - TRACE_LANE_READ)
#define TRACE_WORKERS 63
#define TRACE_LANES_N (TRACE_LANE_WORKER + TRACE_WORKERS)

typedef struct TraceEvent {
    const char *name;     /* of the operator; outlives the trace */
    const char *category; /* likewise */
    uint64_t start_ns, end_ns;
    int32_t layer;      /* -1: none */
    uint32_t row, rows; /* of the step's: from `row` on */
    uint32_t lane;      /* below TRACE_LANES_N */
    uint64_t bytes;     /* that were read or laid out; 0: it is not about them */
} TraceEvent;

typedef struct Trace Trace;

/* Room for n_max events. 0 or -ENOMEM. */
int trace_new(Trace **tracep, size_t n_max);
Trace *trace_free(Trace *trace);
DEFINE_CLEANUP(Trace, trace_free)

/* Thread: any. When there is no room the event is counted and lost. For all others: when nobody adds. */
void trace_add(Trace *trace, const TraceEvent *event);
void trace_clear(Trace *trace);
size_t trace_n(const Trace *trace);
const TraceEvent *trace_at(const Trace *trace, size_t index);
/* How many were lost. */
uint64_t trace_n_lost(const Trace *trace);
/* Replaces the file at path. 0 or -errno, with a text that names it. */
int trace_write(const Trace *trace, const char *path, ErrText *err);

#endif
