// SPDX-License-Identifier: Apache-2.0
/* Costs of graph switching on the npu device, by prompt and policy. */
#ifndef COORDGEN_BENCH_MOBILE_REPORT_H
#define COORDGEN_BENCH_MOBILE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/graphs/graph_switch.h"
#include "tools/bench/mobile/mobile_orders.h"
#include "tools/bench/report.h"

#define MOBILE_PROMPTS_MAX 16
#define MOBILE_POLICIES 5

/* A policy on a prompt; times are medians over the requests, in ms. */
typedef struct MobileRow {
    const char *policy;
    size_t prompt_tokens, output_tokens, n_requests, n_chunks;
    double prefill_ms, decode_ms, total_ms;
    double prefill_stall_ms, decode_stall_ms; /* part of these times spent waiting for loads */
    double load_ms;                           /* time of all loads, hidden or not */
    uint64_t n_loads, loaded_bytes;           /* loads and bytes of one request */
    double expand_ms;                         /* expanding in one request's loads; the rest is reading */
    uint64_t peak_bytes;                      /* peak of the graphs' arena */
    char why[500];                            /* reason of the policy's choice in the last request */
} MobileRow;

typedef struct MobileReport {
    MobileRow rows[MOBILE_PROMPTS_MAX * MOBILE_POLICIES]; /* by prompt, then policy; `none` first */
    size_t n;
    size_t n_blocks;
    uint64_t graph_bytes, block_bytes;
    const char *form; /* form of the graph files */
    char way[40];     /* how loads read: "io_uring, direct" */
    MobileOrders orders;
} MobileReport;

extern const BenchFindings mobile_report_findings; /* findings are a MobileReport */

#endif
