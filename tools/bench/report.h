// SPDX-License-Identifier: Apache-2.0
/* Results of a bench run: as a table, as CSV, as JSON. */
#ifndef COORDGEN_BENCH_REPORT_H
#define COORDGEN_BENCH_REPORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "tools/bench/mobile/mobile_cold.h"
#include "tools/bench/mobile/mobile_memory.h"
#include "tools/bench/mobile/mobile_report.h"
#include "tools/bench/mobile/mobile_table.h"
#include "tools/bench/speculation/flash_report.h"
#include "tools/bench/speculation/spec_report.h"

typedef enum BenchUnit {
    BENCH_TOKENS, /* tokens/s */
    BENCH_MS,     /* less is better; so in all others more is */
    BENCH_GOPS,   /* 10^9 operations/s; a product and its sum are 2 */
    BENCH_GBYTES, /* 10^9 bytes/s */
} BenchUnit;

typedef struct BenchResult {
    const char *test; /* the verb */
    char name[40];    /* what of it, "" for all */
    size_t rows;      /* tokens of the prompt */
    size_t depth;     /* tokens before them */
    unsigned int threads;
    BenchUnit unit;
    size_t n; /* repetitions */
    double median, least, most;
    double floor;    /* what the machine could do, in the unit; 0: unknown */
    double of_floor; /* median of the parts of it that were reached, where each repetition has its own; 0: see floor */
} BenchResult;

/* Median and spread of n >= 1 values, which are sorted. */
void bench_result_take(BenchResult *result, double *values, size_t n);
/* Which part of the machine's speed was reached: 0 when unknown. */
double bench_result_of_floor(const BenchResult *result);

typedef struct BenchReport {
    BenchResult *results;
    size_t n;
    SpecReport spec;     /* of `spec`, which has no results of the other kind */
    FlashReport flash;   /* likewise */
    MobileReport mobile; /* likewise */
    MobileTable table;   /* likewise */
    MobileMemory memory; /* likewise */
    MobileCold cold;     /* likewise, of `mobile --cold` */
    json_t *machine;     /* what the JSON says of machine and model; its "name" stands in the CSV */
} BenchReport;

/* 0 or -ENOMEM. */
int bench_report_add(BenchReport *report, const BenchResult *result);
void bench_report_deinit(BenchReport *report);

void bench_report_table(const BenchReport *report, FILE *file);
void bench_report_csv(const BenchReport *report, FILE *file);
/* {"machine": {...}, "results": [{"test": "pp", "rows": 1024, "tokens_per_s": ..., "of_floor": ...}, ...]}; a new
 * object, NULL when there is no memory. */
json_t *bench_report_json(const BenchReport *report);

#endif
