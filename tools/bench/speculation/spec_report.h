// SPDX-License-Identifier: Apache-2.0
/* The scores of a run of `spec`: as a table, as CSV, as JSON, as a plot. */
#ifndef COORDGEN_BENCH_SPEC_REPORT_H
#define COORDGEN_BENCH_SPEC_REPORT_H

#include "tools/bench/report.h"
#include "tools/bench/speculation/spec_data.h"
#include "tools/bench/speculation/spec_score.h"

typedef struct SpecReport {
    SpecData data;     /* has the names of the tasks */
    SpecScore *scores; /* [n]: by task, within it by mode */
    size_t n;
} SpecReport;

extern const BenchFindings spec_report_findings; /* whose struct a SpecReport is */
/* Writes ratios of the decoding speed by task and mode for tools/plot. 0, -ENOMEM, -errno with a text. */
int spec_report_plot(const SpecReport *report, const char *title, const char *path, ErrText *err);

#endif
