// SPDX-License-Identifier: Apache-2.0
/* Which part of a run is traced: the last turn of everything that is measured, with a span of its own for each. */
#include "bench/bench.h"

void bench_trace(const BenchRun *run, bool on) {
    engine_set_trace(run->engine, on ? run->trace : NULL);
}

void bench_trace_measured(const BenchRun *run, bool on, const char *name, uint64_t start_ns, uint64_t end_ns,
                          size_t rows) {
    if (on && run->trace)
        trace_add(run->trace, &(TraceEvent){ .name = name,
                                             .category = "measured",
                                             .start_ns = start_ns,
                                             .end_ns = end_ns,
                                             .layer = -1,
                                             .rows = (uint32_t)rows,
                                             .lane = TRACE_LANE_RUN });
}
