// SPDX-License-Identifier: Apache-2.0
/* The scores of a run of `flash` by policy, task, memory for layers and speed of the flash. */
#ifndef COORDGEN_BENCH_FLASH_REPORT_H
#define COORDGEN_BENCH_FLASH_REPORT_H

#include "tools/bench/report.h"
#include "tools/bench/speculation/spec_data.h"
#include "tools/bench/speculation/spec_score.h"

/* A setting: how much of the target's layers is in memory, and how fast the others are read. */
typedef struct FlashCell {
    uint32_t budget;      /* per cent */
    size_t rate;          /* MB/s; 0: no limit, or nothing is read */
    uint32_t n_streamed;  /* layers */
    uint64_t sweep_bytes; /* bytes that a step reads */
    char way[24];         /* how: "io_uring, direct" */
} FlashCell;

typedef struct FlashReport {
    SpecData data; /* has the names of the tasks */
    FlashCell *cells;
    size_t n_cells, n_policies;
    SpecScore *scores;                  /* [n_cells][tasks][n_policies]; flash-ar is the first policy */
    char *target, *draft;               /* names */
    uint64_t target_bytes, draft_bytes; /* bytes of weights, as if all were in memory */
} FlashReport;

/* Allocates the scores of n_cells and names their policies and tasks. Return: 0 or -ENOMEM. */
int flash_report_init(FlashReport *report, size_t n_cells, const char *const *policies, size_t n_policies);
SpecScore *flash_report_scores(const FlashReport *report, size_t cell, size_t task); /* [n_policies] */

/* A policy's geometric means over the tasks, NaN where a task has no figure, and the spread of the ratio. */
typedef struct FlashMeans {
    double tokens_per_s, ratio, accept_length;
    double least_ratio, most_ratio; /* least and most ratio of a task */
} FlashMeans;
FlashMeans flash_report_means(const FlashReport *report, size_t cell, size_t policy);

/* The report has "models": {"target": ..., "draft": ...} and "means": [...] beside "results". */
extern const BenchFindings flash_report_findings; /* findings are a FlashReport */
/* Writes the numbers of a plot for tools/plot, a line for each policy: mean tokens a second by the flash's speed, at
 * the first budget that leaves layers on the flash, else at the first one. With one rate it is by budget. Return: 0,
 * -ENOMEM, or -errno with a text. */
int flash_report_plot(const FlashReport *report, const char *title, const char *path, ErrText *err);

#endif
