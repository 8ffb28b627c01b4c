// SPDX-License-Identifier: Apache-2.0
/* The baselines of CoordGen's evaluation and the steps from them to all of it (its table 3), on real requests: what
 * each row is, what a token takes in it, as a table, as CSV, as JSON. Energy is not measured. */
#ifndef COORDGEN_BENCH_MOBILE_TABLE_H
#define COORDGEN_BENCH_MOBILE_TABLE_H

#include "tools/bench/report.h"
#include "tools/bench/speculation/spec_answer.h"
#include "tools/bench/speculation/spec_data.h"

/* Models that are open at once, so that the requests of all rows go in turns. */
typedef enum MobileTableEngine {
    MOBILE_TABLE_CPU,
    MOBILE_TABLE_NPU,    /* graphs are switched when they are to be computed, one operator behind the other */
    MOBILE_TABLE_GRAPHS, /* progressive switching, operators out of order */
    _MOBILE_TABLE_ENGINES,
} MobileTableEngine;

enum {
    MOBILE_TABLE_ROWS = 7,
    MOBILE_TABLE_FIRST = 0, /* the row that all answers are compared with */
    MOBILE_TABLE_BASE = 2,  /* the row that times are set beside: NPU vanilla */
};

typedef struct MobileTableRow {
    const char *key, *name; /* in JSON and CSV; in the table, as the paper has it */
    MobileTableEngine engine;
    const char *mode; /* of speculation (tools/bench/speculation/spec_mode.h) */
    const char *what; /* a line for a person */
} MobileTableRow;

extern const MobileTableRow mobile_table_rows[MOBILE_TABLE_ROWS];

/* One row in one task: sums over its requests. */
typedef struct MobileTableSum {
    size_t n_requests;
    uint64_t n_prompt, n_output, n_decoded; /* tokens; decoded: by decoding steps, end tokens among them */
    uint64_t n_steps, n_rows;               /* of decoding, without rows that fill a graph */
    uint64_t prefill_ns, decode_ns, wait_ns;
} MobileTableSum;

typedef struct MobileTable {
    SpecData data;        /* the tasks' names */
    MobileTableSum *sums; /* [data.n_tasks][MOBILE_TABLE_ROWS] */
    size_t n_tasks;
} MobileTable;

/* wait_ns: that it waited for graphs or weights. */
void mobile_table_add(MobileTableSum *sum, const SpecAnswer *answer, uint64_t wait_ns);

/* Milliseconds: of the prompt a token of it; of decoding a token that it gave; of all a token of output. NaN: there is
 * none. */
double mobile_table_prefill_ms(const MobileTableSum *sum);
double mobile_table_decode_ms(const MobileTableSum *sum);
double mobile_table_all_ms(const MobileTableSum *sum);

extern const BenchFindings mobile_table_findings; /* whose struct a MobileTable is */

#endif
