// SPDX-License-Identifier: Apache-2.0
/* What switching of graphs costs on the npu device, by prompt and policy: as a table, as CSV, as JSON. */
#ifndef COORDGEN_BENCH_MOBILE_REPORT_H
#define COORDGEN_BENCH_MOBILE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/graph_switch.h"
#include "tools/bench/mobile/mobile_orders.h"
#include "tools/bench/report.h"

#define MOBILE_PROMPTS_MAX 16
#define MOBILE_POLICIES 5

/* One policy on one prompt; times are medians over the requests, in milliseconds. */
typedef struct MobileRow {
    const char *policy;
    size_t prompt_tokens, output_tokens, n_requests, n_chunks;
    double prefill_ms, decode_ms, total_ms;
    double prefill_stall_ms, decode_stall_ms; /* of these times, what was waited for loads */
    double load_ms;                           /* that loads took, hidden or not */
    uint64_t n_loads, loaded_bytes;           /* of one request */
    double expand_ms;                         /* of one request's loads; the rest of them is reading */
    uint64_t peak_bytes;                      /* of the arena */
    char why[500];                            /* of the last request */
} MobileRow;

typedef struct MobileReport {
    MobileRow rows[MOBILE_PROMPTS_MAX * MOBILE_POLICIES]; /* by prompt, then policy; `none` first */
    size_t n;
    size_t n_blocks;
    uint64_t graph_bytes, block_bytes;
    const char *form; /* of what is loaded */
    char way[40];     /* of the loads */
    MobileOrders orders;
} MobileReport;

extern const BenchFindings mobile_report_findings; /* whose struct a MobileReport is */

#endif
