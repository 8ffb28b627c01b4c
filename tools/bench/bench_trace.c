// SPDX-License-Identifier: Apache-2.0
/* Records the last turn of every measurement, each in a span of its own. */
#include <stdio.h>

#include "tools/bench/bench.h"

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

void bench_trace_print(const Trace *trace) {
    struct {
        const char *name;
        uint64_t time_ns;
        size_t n;
    } sums[64];
    uint64_t total_ns = 0;
    size_t n = 0;

    for (size_t i = 0; i < trace_n(trace); i++) {
        const TraceEvent *event = trace_at(trace, i);
        size_t at = 0;

        while (at < n && sums[at].name != event->name)
            at++;
        if (at == n && n < ARRAY_LEN(sums)) {
            sums[n].name = event->name;
            sums[n].n = sums[n].time_ns = 0;
            n++;
        }
        if (at == n)
            continue;
        sums[at].n++;
        sums[at].time_ns += event->end_ns - event->start_ns;
        total_ns += event->end_ns - event->start_ns;
    }
    for (; n; n--) {
        size_t longest = 0;

        for (size_t i = 1; i < n; i++)
            longest = sums[i].time_ns > sums[longest].time_ns ? i : longest;
        fprintf(stderr, "%-20s %7zu times %10.2f ms %6.1f %%\n", sums[longest].name, sums[longest].n,
                (double)sums[longest].time_ns / 1e6, 100 * (double)sums[longest].time_ns / (double)total_ns);
        sums[longest] = sums[n - 1];
    }
}
