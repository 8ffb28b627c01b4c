// SPDX-License-Identifier: Apache-2.0
/* Results of a bench run, written as a table, as CSV or as JSON. */
#ifndef COORDGEN_BENCH_REPORT_H
#define COORDGEN_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"

typedef enum BenchUnit {
    BENCH_TOKENS, /* tokens/s */
    BENCH_MS,     /* less is better; in all other units more is */
    BENCH_GOPS,   /* 10^9 operations/s; a product and its sum are 2 */
    BENCH_GBYTES, /* 10^9 bytes/s */
} BenchUnit;

typedef struct BenchResult {
    const char *test; /* the verb */
    char name[40];    /* what of the test; "": all of it */
    size_t rows;      /* tokens of the prompt */
    size_t depth;     /* tokens before them */
    unsigned int threads;
    BenchUnit unit;
    size_t n; /* repetitions */
    double median, least, most;
    double floor;    /* the machine's limit in the unit; 0: unknown */
    double of_floor; /* median share of the repetitions' own floors that was reached; 0: see floor */
} BenchResult;

/* Sets median and spread from n >= 1 values, which it sorts. */
void bench_result_take(BenchResult *result, double *values, size_t n);
/* Returns the share of the machine's speed that was reached; 0: unknown. */
double bench_result_of_floor(const BenchResult *result);

/* How a verb writes findings that are no BenchResult; @findings is its own struct, which begins as zero. */
typedef struct BenchFindings {
    size_t len_bytes; /* bytes of the struct */
    void (*table)(const void *findings, FILE *file);
    void (*csv)(const void *findings, const char *machine, FILE *file);
    bool (*json)(const void *findings, json_t *report); /* adds "results" to the report; false: no memory */
    void (*deinit)(void *findings);                     /* NULL: the struct owns nothing */
} BenchFindings;

typedef struct BenchReport {
    BenchResult *results;
    size_t n;
    const BenchFindings *kind; /* kind of the findings; NULL: the report has results */
    void *findings;
    json_t *machine; /* machine and model for the JSON; its "name" stands in the CSV */
} BenchReport;

/* Appends a copy of the result. Return: 0 or -ENOMEM. */
int bench_report_add(BenchReport *report, const BenchResult *result);
/* Makes this a report of findings of that kind, once, and returns their zeroed struct, which the report owns; NULL when
 * there is no memory. */
void *bench_report_begin(BenchReport *report, const BenchFindings *kind);
void bench_report_deinit(BenchReport *report);

void bench_report_table(const BenchReport *report, FILE *file);
void bench_report_csv(const BenchReport *report, FILE *file);
/* Returns a new object {"machine": {...}, "results": [{"test": "pp", "rows": 1024, "tokens_per_s": ..., "of_floor":
 * ...}, ...]}; NULL when there is no memory. */
json_t *bench_report_json(const BenchReport *report);

#endif
