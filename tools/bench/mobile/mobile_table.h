// SPDX-License-Identifier: Apache-2.0
/* CoordGen's table 3 on real requests: its baselines and the steps from them to the whole, with the time of a token in
 * each row. Energy is not measured. */
#ifndef COORDGEN_BENCH_MOBILE_TABLE_H
#define COORDGEN_BENCH_MOBILE_TABLE_H

#include "tools/bench/report.h"
#include "tools/bench/speculation/spec_answer.h"
#include "tools/bench/speculation/spec_data.h"

/* Engines that are open at once, so that the requests of all rows alternate. */
typedef enum MobileTableEngine {
    MOBILE_TABLE_CPU,
    MOBILE_TABLE_NPU,    /* graphs are loaded when they are needed, operators run in order */
    MOBILE_TABLE_GRAPHS, /* graphs are switched progressively, operators run out of order */
    _MOBILE_TABLE_ENGINES,
} MobileTableEngine;

enum {
    MOBILE_TABLE_ROWS = 7,
    MOBILE_TABLE_FIRST = 0, /* row of the reference answers */
    MOBILE_TABLE_BASE = 2,  /* row of the reference times: NPU vanilla */
};

typedef struct MobileTableRow {
    const char *key, *name; /* key in JSON and CSV; the paper's name in the table */
    MobileTableEngine engine;
    const char *mode; /* mode of speculation (tools/bench/speculation/spec_mode.h) */
    const char *what; /* a line of explanation */
} MobileTableRow;

extern const MobileTableRow mobile_table_rows[MOBILE_TABLE_ROWS];

/* A row in a task: sums over its requests. */
typedef struct MobileTableSum {
    size_t n_requests;
    uint64_t n_prompt, n_output, n_decoded; /* tokens; decoded: given by decoding steps, with end tokens */
    uint64_t n_steps, n_rows;               /* decoding steps and their rows, without padding rows of a graph */
    uint64_t prefill_ns, decode_ns, wait_ns;
} MobileTableSum;

typedef struct MobileTable {
    SpecData data;        /* requests and names of tasks */
    MobileTableSum *sums; /* [data.n_tasks][MOBILE_TABLE_ROWS] */
    size_t n_tasks;
} MobileTable;

/* Adds an answer; @wait_ns is its time of waiting for graphs or weights. */
void mobile_table_add(MobileTableSum *sum, const SpecAnswer *answer, uint64_t wait_ns);

/* Return milliseconds: of prefill for each prompt token, of decoding for each decoded token, of both for each output
 * token. NaN: no such token. */
double mobile_table_prefill_ms(const MobileTableSum *sum);
double mobile_table_decode_ms(const MobileTableSum *sum);
double mobile_table_all_ms(const MobileTableSum *sum);

extern const BenchFindings mobile_table_findings; /* findings are a MobileTable */

#endif
