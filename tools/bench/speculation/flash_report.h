// SPDX-License-Identifier: Apache-2.0
/* The scores of a run of `flash`: by policy, task, memory for layers and speed of the flash; as tables, as CSV, as
 * JSON, as a plot. */
#ifndef COORDGEN_BENCH_FLASH_REPORT_H
#define COORDGEN_BENCH_FLASH_REPORT_H

#include "tools/bench/report.h"
#include "tools/bench/speculation/spec_data.h"
#include "tools/bench/speculation/spec_score.h"

/* How much of the target's layers is in memory, and how fast the others are read. */
typedef struct FlashCell {
    uint32_t budget;      /* per cent */
    size_t rate;          /* MB/s; 0: the disk's own, or nothing is read */
    uint32_t n_streamed;  /* layers */
    uint64_t sweep_bytes; /* that a step reads */
    char way[24];         /* how: "io_uring, direct" */
} FlashCell;

typedef struct FlashReport {
    SpecData data; /* has the names of the tasks */
    FlashCell *cells;
    size_t n_cells, n_policies;
    SpecScore *scores;                  /* [n_cells][tasks][n_policies]; flash-ar is the first policy */
    char *target, *draft;               /* names */
    uint64_t target_bytes, draft_bytes; /* of weights; the target's when all are in memory */
} FlashReport;

/* Room for the scores of n_cells, with the names that all of them have. 0 or -ENOMEM. */
int flash_report_init(FlashReport *report, size_t n_cells, const char *const *policies, size_t n_policies);
SpecScore *flash_report_scores(const FlashReport *report, size_t cell, size_t task); /* [n_policies] */

/* What a policy reaches over the tasks: geometric means, NaN where a task has none, and the ratio's spread. */
typedef struct FlashMeans {
    double tokens_per_s, ratio, accept_length;
    double least_ratio, most_ratio; /* of a task */
} FlashMeans;
FlashMeans flash_report_means(const FlashReport *report, size_t cell, size_t policy);

/* The report has "models": {"target": ..., "draft": ...} and "means": [...] beside "results". */
extern const BenchFindings flash_report_findings; /* whose struct a FlashReport is */
/* Means of the first budget that leaves layers on the flash, or of the first one: tokens a second by its speed, or
 * at one rate by all budgets, a line a policy, for tools/plot. 0, -ENOMEM, -errno with a text. */
int flash_report_plot(const FlashReport *report, const char *title, const char *path, ErrText *err);

#endif
